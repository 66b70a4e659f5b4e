"""The shared ledger: PostgreSQL, for any number of machines, through asyncpg."""

from gapless.ledger.postgres.database import PostgresDatabase

__all__ = ["PostgresDatabase"]
