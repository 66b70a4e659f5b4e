"""Failures of PostgreSQL, grouped by how to react to them. No other module decides that.

The classes of asyncpg follow SQLSTATE, so each name below is one code or a whole class of codes.
Everything outside these groups is a mistake in a statement, and retrying cannot help.
"""

from __future__ import annotations

import asyncpg

LOST = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the connection ended while it was idle
    asyncpg.PostgresConnectionError,  # 08
    asyncpg.OperatorInterventionError,  # 57: shutdown, crash recovery, a statement timeout
    asyncpg.TransactionRollbackError,  # 40: deadlock
    asyncpg.LockNotAvailableError,  # 55P03
    asyncpg.IdleInTransactionSessionTimeoutError,  # 25P03
    asyncpg.TransactionTimeoutError,  # 25P04
    asyncpg.TooManyConnectionsError,  # 53300
    asyncpg.InvalidCachedStatementError,  # a migration happened
)
"""Retrying may help: the transaction was not committed, or it is unknown whether it was."""

SERVER_WIDE = (
    asyncpg.ReadOnlySQLTransactionError,  # 25006
    asyncpg.InsufficientResourcesError,  # 53: disk, memory
    asyncpg.PostgresSystemError,  # 58: the server's own input and output
)
"""The server cannot serve anybody, whatever the statement."""

UNABLE = (
    *SERVER_WIDE,
    asyncpg.InvalidAuthorizationSpecificationError,  # 28: a password or a role has changed
    asyncpg.InvalidCatalogNameError,  # 3D000: the database is gone, maybe for a restore
    asyncpg.InsufficientPrivilegeError,  # 42501
    asyncpg.InternalServerError,  # XX
    asyncpg.UnknownPostgresError,  # a code of a managed server or a proxy
)
"""The server refuses for now, with a reason: only time or a person can fix it."""

POOLED = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
"""Errors of prepared statements with a transaction-pooling proxy."""

FAILURES = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""Every error that the driver raises."""

_HINTS = {
    asyncpg.ReadOnlySQLTransactionError: "make the server writable, or connect to the primary",
    asyncpg.InvalidAuthorizationSpecificationError: "check the URL's user and password",
    asyncpg.InvalidCatalogNameError: "check the URL's database",
    asyncpg.InsufficientPrivilegeError: "grant the URL's user the missing privilege",
    asyncpg.InsufficientResourcesError: "check the server's disk, memory and `max_connections`",
}


def hint(error: Exception) -> str:
    """What a person can do about a failure of the server."""
    for kind, advice in _HINTS.items():
        if isinstance(error, kind):
            return advice
    if isinstance(error, UNABLE):
        return "check the server's log"
    return "check that PostgreSQL runs there and that the URL's user may connect"
