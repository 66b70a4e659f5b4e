"""Logs with a stable action, and metrics to scrape."""

from gapless.telemetry.actions import about, log

__all__ = ["about", "log"]
