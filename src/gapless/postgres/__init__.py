"""PostgreSQL as ledger and sinks reach it, through asyncpg: URLs, connections, what goes wrong."""
