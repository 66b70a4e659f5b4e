"""The location of a ledger: its URL, opening it, and the part of the URL that may be shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gapless.core.errors import LedgerUnreachable, SchemaMismatch, UsageError
from gapless.core.remedies import CreateLedger, MigrateLedger
from gapless.ledger.database import Database
from gapless.ledger.ledger import Ledger
from gapless.system import SYSTEM, System

SHARDS = 16


async def open_ledger(
    url: str,
    *,
    actor: str = "",
    create: bool = True,
    migrating: bool = False,
    system: System = SYSTEM,
) -> Ledger:
    """Opens the ledger at a URL: `sqlite:///path`, a bare path, or `postgresql://…`.

    An empty database gets its schema, unless `create` is False.
    """
    clock, shard = system.database_clock, system.process().pid % SHARDS

    def bound() -> dict[str, Any]:
        return {"now": clock and clock(), "actor": actor, "shard": shard}

    database = await _connect(url, bound, create, system)
    try:
        version = await database.schema_version()
        if version is None and create and not migrating:
            await database.migrate()
        elif not migrating:
            _require_version(version, database.newest_schema, redacted(url))
    except BaseException:
        await database.close()
        raise
    return Ledger(database, redacted(url), system)


def redacted(url: str) -> str:
    """The URL without its password and its options, which may be secret."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "sqlite":
        return url
    authority, *more = re.split("([/?#])", rest, maxsplit=1)
    if "@" in "".join(more):  # a password with such a character, not percent-encoded
        return f"{scheme}://…"
    credentials, at, host = authority.rpartition("@")
    path = re.split("[?#]", "".join(more), maxsplit=1)[0]
    return f"{scheme}://{credentials.partition(':')[0]}{at}{host}{path}"


async def _connect(
    url: str, bound: Callable[[], dict[str, Any]], create: bool, system: System
) -> Database:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "sqlite":
        from gapless.ledger.sqlite import SqliteDatabase

        path = rest.removeprefix("/") if separator else url
        if not path:
            raise UsageError("the ledger's path is empty", hint="write `sqlite:///path/to/it.db`")
        return await SqliteDatabase(Path(path), bound, create=create, system=system).open()
    if scheme in ("postgresql", "postgres"):
        from gapless.ledger.postgres import PostgresDatabase

        return await PostgresDatabase(url, redacted(url), bound).open()
    raise UsageError(
        f"a ledger cannot live at `{scheme}://…`",
        hint="write `sqlite:///path` or `postgresql://…`",
    )


def _require_version(version: int | None, newest: int, shown: str) -> None:
    if version is None:
        raise LedgerUnreachable(
            f"there is no ledger at `{shown}`",
            remedy=CreateLedger(),
        )
    if version > newest:
        raise SchemaMismatch(
            f"the ledger `{shown}` has schema {version}, this Gapless knows {newest}",
            hint="upgrade Gapless",
        )
    if version < newest:
        raise SchemaMismatch(
            f"the ledger `{shown}` has schema {version}, this Gapless needs {newest}",
            remedy=MigrateLedger(),
        )
