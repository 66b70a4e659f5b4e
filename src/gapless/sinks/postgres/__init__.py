"""A sink in a PostgreSQL database, for any number of hosts."""

from gapless.sinks.postgres.sink import PostgresSink

__all__ = ["PostgresSink"]
