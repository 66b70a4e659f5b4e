"""A DuckDB file as a sink."""

from gapless.sinks.duckdb.sink import DuckdbSink

__all__ = ["DuckdbSink"]
