"""What Gapless says of itself: lines with an action, and numbers to scrape."""

from gapless.telemetry.actions import about, log

__all__ = ["about", "log"]
