"""A folder of Parquet files as a sink."""

from gapless.sinks.parquet.sink import ParquetSink

__all__ = ["ParquetSink"]
