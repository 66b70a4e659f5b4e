"""The storage of each kind of sink, written directly, as anyone with access to it can.

Nothing here uses the sink's own methods for writing. What is written need not be honest: keys may
repeat where the storage allows it, and records may claim anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from gapless.chains.evm.tables import BLOCKS
from gapless.schema import F64
from gapless.schema.ddl import listed
from gapless.sinks import Request, Stored, requests
from gapless.sinks.parquet.manifest import CELL, ChainFiles, Entry, Manifest, RequestEntry, decoded
from gapless.sinks.postgres.copying import columns_with_values, copy_stream
from gapless.sinks.range_rows import COLUMNS, changes, records_from
from gapless.sinks.records import RangeRecords
from gapless.sinks.sqlite.rows import to_tuples
from tests.conformance.verify.forgeries import Forgery
from tests.evm import EVERY_TABLE

Rows = Mapping[str, pa.Table]
Edit = Callable[[list[Stored]], Iterable[Stored]]
EditRequests = Callable[[list[Request]], Iterable[Request]]


class Place(ABC):
    """Where a sink of one chain is, while nobody has it open."""

    repeats_keys = False  # whether a key can be duplicated
    rounded = True  # whether 256-bit numbers have rounded copies

    def __init__(self, target: str, chain_id: int) -> None:
        self.target = target
        self.chain_id = chain_id

    def allows(self, it: Forgery) -> bool:
        """Whether the storage allows it."""
        if it.deed == "double":
            return self.repeats_keys
        return self.rounded or not it.column.endswith(F64)

    @abstractmethod
    async def lay(self, rows: Rows, homes: Mapping[str, Sequence[int]]) -> None:
        """Replaces all rows. A row's home is the height whose file it goes to, if any."""

    @abstractmethod
    async def records(self, edit: Edit) -> None:
        """Replaces the records of ranges."""

    @abstractmethod
    async def requests(self, edit: EditRequests) -> None:
        """Replaces the requests."""


class SqlPlace(Place):
    """A database."""

    async def lay(self, rows: Rows, homes: Mapping[str, Sequence[int]]) -> None:
        await self._replace(rows)

    async def records(self, edit: Edit) -> None:
        found = records_from(await self._select(f"SELECT {COLUMNS} FROM _gapless_ranges"))
        _, added = changes(RangeRecords((), ()), edit([*found.stored]), found.retracted)
        entries = [(self.chain_id, *each) for each in added]
        await self._rewrite("_gapless_ranges", entries)

    async def requests(self, edit: EditRequests) -> None:
        select = f"SELECT {requests.COLUMNS} FROM {requests.TABLE}"
        found = [requests.from_row(row) for row in await self._select(select)]
        wanted = [(self.chain_id, *requests.to_row(each)) for each in edit(found)]
        await self._rewrite(requests.TABLE, wanted)

    @abstractmethod
    async def _replace(self, rows: Rows) -> None: ...

    @abstractmethod
    async def _select(self, query: str) -> Sequence[Sequence[Any]]: ...

    @abstractmethod
    async def _rewrite(self, name: str, rows: Sequence[Sequence[Any]]) -> None: ...


class SqlitePlace(SqlPlace):
    async def _replace(self, rows: Rows) -> None:
        connection = apsw.Connection(self.target)
        connection.execute("BEGIN")
        for each in EVERY_TABLE:
            names = [column.name for column in each]
            connection.execute(f"DELETE FROM {each.name}")
            connection.executemany(
                f"INSERT INTO {each.name} ({listed(names)}) VALUES ({_marks(names)})",
                to_tuples([*each], rows[each.name]),
            )
        connection.execute("COMMIT")
        connection.close()

    async def _select(self, query: str) -> Sequence[Sequence[Any]]:
        connection = apsw.Connection(self.target)
        found = connection.execute(query).fetchall()
        connection.close()
        return found

    async def _rewrite(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        connection = apsw.Connection(self.target)
        connection.execute(f"DELETE FROM {name}")
        for row in rows:
            connection.execute(f"INSERT INTO {name} VALUES ({_marks(row)})", tuple(row))
        connection.close()


class DuckdbPlace(SqlPlace):
    repeats_keys = True

    async def _replace(self, rows: Rows) -> None:
        with duckdb.connect(self.target) as connection:
            for each in EVERY_TABLE:
                connection.execute(f"DELETE FROM {each.name}")
                connection.register("forged", rows[each.name])
                connection.execute(f"INSERT INTO {each.name} BY NAME FROM forged")
                connection.unregister("forged")

    async def _select(self, query: str) -> Sequence[Sequence[Any]]:
        with duckdb.connect(self.target) as connection:
            return connection.execute(query).fetchall()

    async def _rewrite(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        with duckdb.connect(self.target) as connection:
            connection.execute(f"DELETE FROM {name}")
            if rows:
                connection.executemany(f"INSERT INTO {name} VALUES ({_marks(rows[0])})", rows)


class PostgresPlace(SqlPlace):
    rounded = False

    def allows(self, it: Forgery) -> bool:
        return super().allows(it) and it.deed != "garbage"

    async def _replace(self, rows: Rows) -> None:
        connection = await self._connect()
        for each in reversed(EVERY_TABLE):
            await connection.execute(f"DELETE FROM {each.name}")
        for each in EVERY_TABLE:
            columns = columns_with_values(each, rows[each.name])
            pieces = [*copy_stream(columns, rows[each.name])]
            await connection.copy_to_table(
                each.name,
                schema_name=self._schema,
                columns=[column.name for column in columns],
                source=_stream(pieces),
                format="binary",
            )
        await connection.close()

    async def _select(self, query: str) -> Sequence[Sequence[Any]]:
        connection = await self._connect()
        found = [tuple(row) for row in await connection.fetch(query)]
        await connection.close()
        return found

    async def _rewrite(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        connection = await self._connect()
        await connection.execute(f"DELETE FROM {name}")
        if rows:
            marks = ", ".join(f"${at + 1}" for at in range(len(rows[0])))
            await connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        await connection.close()

    @property
    def _schema(self) -> str:
        return self.target.partition("schema=")[2]

    async def _connect(self) -> asyncpg.Connection:
        """A connection without foreign key checks."""
        settings = {"search_path": self._schema, "session_replication_role": "replica"}
        return await asyncpg.connect(self.target.partition("?")[0], server_settings=settings)


class ParquetPlace(Place):
    repeats_keys = True

    def allows(self, it: Forgery) -> bool:
        """A row of a height outside its file would make the whole file damaged."""
        moved = (it.column, it.deed) == ("block_number", "change")
        return super().allows(it) and not moved and (it.table, it.deed) != (BLOCKS.name, "repeat")

    @property
    def folder(self) -> Path:
        return Path(self.target)

    async def lay(self, rows: Rows, homes: Mapping[str, Sequence[int]]) -> None:
        by_height: dict[str, dict[int, list[int]]] = {}
        for name, heights in homes.items():
            found = by_height[name] = defaultdict(list)
            for at, height in enumerate(heights):
                found[height].append(at)
        for path in self.folder.rglob("*.parquet"):
            path.unlink()
        for entry, path in self.files().items():
            there = by_height[entry.dataset]
            heights = range(entry.first, entry.last + 1)
            places = sorted(at for height in heights for at in there.get(height, ()))
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows[entry.dataset].take(places), path)

    async def records(self, edit: Edit) -> None:
        chain = self.chain
        cells: dict[int, tuple[Entry, ...]] = {}
        for each in edit([entry.stored() for entry in chain.entries()]):
            cell = each.span.first // CELL
            cells[cell] = (*cells.get(cell, ()), Entry.of(each))
        self.rewrite(msgspec.structs.replace(chain, cells=cells))

    async def requests(self, edit: EditRequests) -> None:
        chain = self.chain
        wanted = tuple(map(RequestEntry.of, edit([each.request() for each in chain.requests])))
        self.rewrite(msgspec.structs.replace(chain, requests=wanted))

    @property
    def manifest(self) -> Path:
        return self.folder / "_gapless" / "manifest.json"

    @property
    def chain(self) -> ChainFiles:
        return self._manifest().chains[self.chain_id]

    def rewrite(self, chain: ChainFiles) -> None:
        self.restore(msgspec.json.encode(self._manifest().following(self.chain_id, chain)))

    def restore(self, text: bytes) -> None:
        """Puts a manifest in place, as a new file."""
        beside = self.manifest.with_suffix(".forged")
        beside.write_bytes(text)
        beside.replace(self.manifest)

    def files(self) -> dict[Entry, Path]:
        """The files that the manifest lists."""
        chain = self.chain
        return {it: self.folder / chain.folder / it.name for it in chain.entries()}

    def _manifest(self) -> Manifest:
        return decoded(self.manifest, self.manifest.read_bytes())


PLACES: dict[str, type[Place]] = {
    "sqlite": SqlitePlace,
    "duckdb": DuckdbPlace,
    "postgres": PostgresPlace,
    "parquet": ParquetPlace,
}


async def _stream(pieces: Iterable[bytes]) -> Any:
    for piece in pieces:
        yield piece


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" for _ in values)
