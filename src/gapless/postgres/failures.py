"""What a failure of PostgreSQL asks for. This is the one place that decides it.

The classes of asyncpg follow SQLSTATE, so each name below stands for a code or for a whole class
of codes. What is in none of these groups is a mistake in a statement: another try cannot help.
"""

from __future__ import annotations

import asyncpg

LOST = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the end came while the connection was idle
    asyncpg.PostgresConnectionError,  # 08
    asyncpg.OperatorInterventionError,  # 57: shutdown, crash recovery, a statement timeout
    asyncpg.TransactionRollbackError,  # 40: deadlock
    asyncpg.LockNotAvailableError,  # 55P03
    asyncpg.IdleInTransactionSessionTimeoutError,  # 25P03
    asyncpg.TransactionTimeoutError,  # 25P04
    asyncpg.TooManyConnectionsError,  # 53300
    asyncpg.InvalidCachedStatementError,  # a migration happened
)
"""What another try may mend: the transaction has not happened, or nobody says whether it has."""

SERVER_WIDE = (
    asyncpg.ReadOnlySQLTransactionError,  # 25006
    asyncpg.InsufficientResourcesError,  # 53: disk, memory
    asyncpg.PostgresSystemError,  # 58: the server's own input and output
)
"""What the server can do for nobody, whatever the statement is."""

UNABLE = (
    *SERVER_WIDE,
    asyncpg.InvalidAuthorizationSpecificationError,  # 28: a password or a role has changed
    asyncpg.InvalidCatalogNameError,  # 3D000: the database is gone, maybe for a restore
    asyncpg.InsufficientPrivilegeError,  # 42501
    asyncpg.InternalServerError,  # XX
    asyncpg.UnknownPostgresError,  # a code of a managed server or a proxy
)
"""What the server cannot do for now, and says why: it takes time or a person to mend it."""

POOLED = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
"""What a prepared statement may meet behind a proxy that pools transactions."""

FAILURES = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""Everything that the driver raises."""

_HINTS = {
    asyncpg.ReadOnlySQLTransactionError: "make the server writable, or connect to the primary",
    asyncpg.InvalidAuthorizationSpecificationError: "check the URL's user and password",
    asyncpg.InvalidCatalogNameError: "check the URL's database",
    asyncpg.InsufficientPrivilegeError: "grant the URL's user what is missing",
    asyncpg.InsufficientResourcesError: "check the server's disk, memory and `max_connections`",
}


def hint(error: Exception) -> str:
    """What a person can do about a failure that is not Gapless's own."""
    for kind, advice in _HINTS.items():
        if isinstance(error, kind):
            return advice
    if isinstance(error, UNABLE):
        return "check the server's log"
    return "check that PostgreSQL runs there and that the URL's user may connect"
