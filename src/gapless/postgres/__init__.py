"""PostgreSQL for ledgers and sinks, through asyncpg: URLs, connections, failures."""
