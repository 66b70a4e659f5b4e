"""A SQLite file as a sink."""

from gapless.sinks.sqlite.sink import SqliteSink

__all__ = ["SqliteSink"]
