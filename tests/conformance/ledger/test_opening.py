"""Opening a ledger: where it may be, who may use it, and what is never shown."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from gapless import sqlite
from gapless.core.errors import GaplessError, LedgerUnreachable, LibraryMismatch, UsageError
from gapless.core.remedies import CreateLedger
from gapless.ledger import open_ledger, redacted
from tests.support import SqliteHome, create, finish, state

SECRET = "s3cret"


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("form", ["{path}", "sqlite:///{path}"])
async def test_a_path_is_a_sqlite_ledger_created_on_demand(tmp_path: Path, form: str) -> None:
    path = tmp_path / "new" / "folder" / "ledger.db"
    ledger = await open_ledger(form.format(path=path))
    await create(ledger)
    await ledger.close()
    again = await open_ledger(form.format(path=path), create=False)
    assert (await again.backfill("bf")).partitions == 10
    assert again.url == form.format(path=path)
    await again.close()


async def test_a_missing_file_is_not_created_unless_requested(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "ledger.db"
    with pytest.raises(LedgerUnreachable, match="there is no ledger at") as error:
        await open_ledger(str(path), create=False)
    assert error.value.remedy == CreateLedger()
    assert names(tmp_path) == []


async def test_an_empty_database_is_not_a_ledger_unless_requested(postgres_url: str) -> None:
    with pytest.raises(LedgerUnreachable, match="there is no ledger at"):
        await open_ledger(postgres_url, create=False)
    ledger = await open_ledger(postgres_url)
    await create(ledger, partitions=1)
    await finish(ledger)
    assert await state(ledger) == "SUCCEEDED"
    await ledger.close()


async def test_a_foreign_sqlite_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    theirs = apsw.Connection(str(path))
    theirs.execute("CREATE TABLE precious (x)")
    theirs.close()
    before = path.read_bytes()
    with pytest.raises(LedgerUnreachable, match="but not a Gapless ledger"):
        await open_ledger(str(path))
    assert path.read_bytes() == before
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("place", ["text.db", "folder"])
async def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "text.db").write_text("not a database, but long enough to look like one " * 99)
    (tmp_path / "folder").mkdir()
    with pytest.raises(LedgerUnreachable, match="cannot open the ledger"):
        await open_ledger(str(tmp_path / place))


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///"])
async def test_an_empty_path_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="the ledger's path is empty"):
        await open_ledger(url)


async def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(UsageError, match="a ledger cannot live at `mysql://…`") as error:
        await open_ledger(f"mysql://me:{SECRET}@host/ledger")
    assert error.value.hint == "write `sqlite:///path` or `postgresql://…`"


async def test_a_sqlite_that_can_corrupt_a_shared_ledger_is_refused(
    sqlite_home: SqliteHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "SAFE", (99, 0, 0))
    with pytest.raises(LibraryMismatch, match="can corrupt a ledger") as error:
        await open_ledger(sqlite_home.url)
    assert error.value.hint == "install apsw 3.51.3 or newer"
    assert not sqlite_home.path.exists()


async def test_concurrent_processes_create_one_sqlite_ledger(sqlite_home: SqliteHome) -> None:
    ledgers = await asyncio.gather(*(open_ledger(sqlite_home.url) for _ in range(8)))
    await asyncio.gather(*(create(ledger) for ledger in ledgers))
    assert len(await ledgers[0].backfills()) == 1
    for ledger in ledgers:
        await ledger.close()


async def test_concurrent_processes_create_one_postgres_ledger(postgres_url: str) -> None:
    ledgers = await asyncio.gather(*(open_ledger(postgres_url) for _ in range(4)))
    await asyncio.gather(*(create(ledger) for ledger in ledgers))
    assert len(await ledgers[0].backfills()) == 1
    for ledger in ledgers:
        await ledger.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@127.0.0.1:1/ledger",
        "postgresql://me:s3cret@127.0.0.1:1/ledger?sslmode=nonsense",
        "postgresql://me@127.0.0.1:1/ledger?password=s3cret",
        "postgresql://me:s3cret@nowhere.invalid/ledger",
        "postgresql://me:s3cret@127.0.0.1:port/ledger",
        "postgresql://me:s3cret@127.0.0.1:99999/ledger",
        "postgresql://me:s3cret@[::1/ledger",
        "postgresql://me:s3cret/x@127.0.0.1:1/ledger",
        "postgresql://me:x/s3cret@127.0.0.1:1/ledger",
        "postgresql://me:s3cret#x@127.0.0.1:1/ledger",
        "postgresql://me:x#s3cret@127.0.0.1:1/ledger",
        "postgresql://me:s3cret?x@127.0.0.1:1/ledger",
        "postgresql://me:x?s3cret@127.0.0.1:1/ledger",
        "postgresql://me:s3cret@x@127.0.0.1:1/ledger",
        "postgresql://:s3cret@127.0.0.1:1/ledger",
        "mysql://me:s3cret@host/ledger",
    ],
)
async def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises(GaplessError) as error:
        await open_ledger(url)
    shown = f"{error.value} {error.value.hint} {error.value.__cause__!r}"
    assert SECRET not in shown
    assert SECRET not in redacted(url)


def test_the_public_parts_of_a_url_are_shown() -> None:
    assert redacted("postgresql://me:pw@db:5432/ledger?x=1") == "postgresql://me@db:5432/ledger"
    assert redacted("postgres://db/ledger#x") == "postgres://db/ledger"
    assert redacted("sqlite:///here/it.db") == "sqlite:///here/it.db"
    assert redacted("here/it.db") == "here/it.db"


async def test_an_unreachable_ledger_says_where_and_what_to_do() -> None:
    with pytest.raises(LedgerUnreachable, match=r"`postgresql://me@127\.0\.0\.1:1/l`") as error:
        await open_ledger(f"postgresql://me:{SECRET}@127.0.0.1:1/l")
    assert "check that PostgreSQL runs there" in (error.value.hint or "")
