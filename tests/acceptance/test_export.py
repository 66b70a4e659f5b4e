"""`gapless export` as a person uses it; in this process, since processes do not matter here."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gapless.chains.opening import open_sink
from gapless.cli.app import main
from gapless.core.ranges import Span
from gapless.export import output
from gapless.sinks import Request
from tests.conformance.sink.stage import CHAIN_ID, EVERYTHING, HEAD, batch, listed, rows_of


@dataclass(frozen=True)
class Result:
    code: int
    stdout: bytes
    stderr: str


Gapless = Callable[..., Result]


@pytest.fixture
def gapless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Gapless:
    """Runs a command in a folder where `blocks.db` contains the blocks from 5 to 40."""
    monkeypatch.chdir(tmp_path)
    asyncio.run(_fill())

    def run(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["gapless", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        stdout, stderr = capfdbinary.readouterr()
        assert isinstance(ended.value.code, int)
        return Result(ended.value.code, stdout, stderr.decode())

    return run


async def _fill(*holes: tuple[int, int], place: str = "blocks.db") -> None:
    async with await open_sink(place) as sink:
        await sink.write(batch(5, HEAD), 3)
        for hole in holes:
            await sink.retract(CHAIN_ID, Span(*hole), 4)


def test_rows_go_to_stdout(gapless: Gapless) -> None:
    result = gapless("export", "blocks.db", "--table", "logs", "--schema", "ethereum-etl")
    rows = [*csv.DictReader(io.StringIO(result.stdout.decode()))]
    expected = rows_of("logs", Span(5, HEAD))
    assert [int(row["log_index"]) for row in rows] == expected["log_index"].to_pylist()
    assert result.code == 0
    assert result.stderr == f"1337: {len(rows)} rows of logs, blocks 5-40\n"
    lines = gapless("export", "blocks.db", "--table", "blocks", "--format", "json").stdout
    assert [json.loads(line)["block_number"] for line in lines.splitlines()] == [*range(5, 41)]


def test_rows_go_to_a_file(gapless: Gapless, tmp_path: Path) -> None:
    arguments = ("--table", "blocks", "--format", "parquet", "--blocks", "7:+3", "--json")
    result = gapless("export", "blocks.db", "--output", "b.parquet", *arguments)
    assert json.loads(result.stdout) == {
        "network": "1337",
        "first": 7,
        "last": 9,
        "rows": 3,
        "schema": "native",
        "schema_version": None,
        "output": "b.parquet",
    }
    assert pq.read_table("b.parquet")["block_number"].to_pylist() == [7, 8, 9]
    assert listed(tmp_path) == ["b.parquet", "blocks.db"]


def test_the_version_of_a_copied_schema_is_shown(gapless: Gapless) -> None:
    arguments = ("--table", "receipts", "--schema", "ethereum-etl", "--output", "r.csv", "--json")
    result = json.loads(gapless("export", "blocks.db", *arguments).stdout)
    assert (result["schema"], result["schema_version"]) == ("ethereum-etl", "2.4.2")
    assert b"ethereum-etl 2.4.2" in gapless("export", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "complaint", "hint"),
    [
        (
            ["--table", "logs"],
            "3 blocks missing: 10-12",
            "`gapless fetch 1337 10:12 --rpc … --to blocks.db` fetches them",
        ),
        (
            ["--table", "blocks", "--blocks", "20:50"],
            "10 blocks missing: 41-50",
            "`gapless fetch 1337 41:50 --rpc … --to blocks.db` fetches them",
        ),
        (
            ["--table", "blocks", "--network", "ethereum"],
            "`blocks.db` holds no blocks of ethereum",
            "fetch some with `gapless fetch ethereum A:B --rpc … --to blocks.db`",
        ),
    ],
)
def test_gaps_are_named_and_nothing_is_written(
    gapless: Gapless, tmp_path: Path, arguments: list[str], complaint: str, hint: str
) -> None:
    asyncio.run(_fill((10, 12)))
    for place in ([], ["--output", "x.csv"]):
        result = gapless("export", "blocks.db", *arguments, *place)
        assert (result.code, result.stdout) == (1, b"")
        assert result.stderr == f"error: {complaint}\n\nhint: {hint}\n"
    assert listed(tmp_path) == ["blocks.db"]
    assert gapless("export", "blocks.db", "--table", "logs", "--blocks", "13:40").code == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere.db", "--table", "logs"], "there is no sink at `nowhere.db`"),
        (["blocks.db"], "missing option `--table`"),
        (["blocks.db", "--table", "traces"], "`traces` is not one of"),
        (["blocks.db", "--table", "receipts"], "`native` has no table `receipts`"),
        (
            ["blocks.db", "--table", "withdrawals", "--schema", "ethereum-etl"],
            "`ethereum-etl` has no table `withdrawals`",
        ),
        (
            ["blocks.db", "--table", "logs", "--format", "parquet"],
            "Parquet cannot be written to stdout",
        ),
        (["blocks.db", "--table", "logs", "--blocks", "9:3"], "`9:3` ends before it begins"),
        (["blocks.db", "--table", "logs", "--blocks", "9:latest"], "`9:latest` has no end"),
        (["blocks.db", "--table", "logs", "--output", "blocks.db"], "`blocks.db` already exists"),
        (["blocks.db", "--table", "logs", "--output", "no/x.csv"], "there is no folder `no`"),
    ],
)
def test_invalid_arguments_are_refused(
    gapless: Gapless, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    result = gapless("export", *arguments)
    assert (result.code, result.stdout) == (2, b"")
    assert complaint in result.stderr
    assert "\n\nhint: " in result.stderr
    assert listed(tmp_path) == ["blocks.db"]


def test_a_reader_may_close_the_pipe_early(
    gapless: Gapless, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gapless export … | head` prints no error."""
    reader, pipe = os.pipe()
    os.close(reader)
    with os.fdopen(pipe, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        result = gapless("export", "blocks.db", "--table", "transactions")
    assert (result.code, result.stderr) == (1, "")


@contextmanager
def no_room_for(size: int) -> Iterator[None]:
    """Files of this process cannot grow beyond this many bytes, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("format_name", ["csv", "json", "parquet"])
@pytest.mark.parametrize("room", [500, 3000])  # the messages themselves fit
def test_a_full_disk_leaves_nothing(
    gapless: Gapless, tmp_path: Path, format_name: str, room: int
) -> None:
    arguments = ("--table", "transactions", "--format", format_name, "--output", "x.out")
    with no_room_for(room):
        result = gapless("export", "blocks.db", *arguments)
    assert (result.code, result.stdout) == (1, b"")
    assert result.stderr == (
        "error: `x.out` cannot be written: file too large\n\n"
        "hint: make room, or name a file on another disk\n"
    )
    assert listed(tmp_path) == ["blocks.db"]
    assert gapless("export", "blocks.db", *arguments).code == 0


def test_a_full_disk_behind_stdout_is_reported(
    gapless: Gapless, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - not a file of this test
        monkeypatch.setattr(sys, "stdout", full)
        result = gapless("export", "blocks.db", "--table", "transactions")
    assert result.code == 1
    assert result.stderr.startswith(
        "error: `stdout` cannot be written: no space left on device\n\n"
    )


@pytest.mark.parametrize(
    ("output_name", "code", "complaint"),
    [
        ("/proc/x.csv", 1, "`/proc/x.csv` cannot be written: "),
        (f"{'x' * 300}.csv", 1, "cannot be written: file name too long"),
        ("blocks.db/x.csv", 2, "there is no folder `blocks.db`"),
        (".", 2, "`.` already exists"),
    ],
)
def test_an_output_path_that_cannot_be_written_is_reported(
    gapless: Gapless, tmp_path: Path, output_name: str, code: int, complaint: str
) -> None:
    result = gapless("export", "blocks.db", "--table", "logs", "--output", output_name)
    assert (result.code, result.stdout) == (code, b"")
    assert complaint in result.stderr
    assert "\n\nhint: " in result.stderr
    assert "Traceback" not in result.stderr
    assert listed(tmp_path) == ["blocks.db"]


def test_damaged_rows_are_an_error_that_suggests_a_repair(gapless: Gapless, tmp_path: Path) -> None:
    asyncio.run(_fill(place="blocks/"))
    (file,) = (tmp_path / f"blocks/{CHAIN_ID}/logs").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:200])
    result = gapless("export", "blocks/", "--table", "logs", "--output", "x.csv")
    assert (result.code, result.stdout) == (1, b"")
    assert result.stderr.startswith(f"error: `{file}` ")
    assert result.stderr.endswith(
        "\n\nhint: `gapless repair blocks/ --rpc …` replaces what is damaged\n"
    )
    assert not (tmp_path / "x.csv").exists()


def test_a_file_gets_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    wanted = tmp_path / "x.csv"
    with output.new_file(wanted) as file:
        file.write(b"half")
        assert not wanted.exists()
    assert wanted.read_bytes() == b"half"
    with pytest.raises(ZeroDivisionError), output.new_file(tmp_path / "y.csv"):
        raise ZeroDivisionError
    assert listed(tmp_path) == ["x.csv"]


async def _expire(below: int) -> None:
    async with await open_sink("blocks.db") as sink:
        await sink.request(CHAIN_ID, Request(Span(5, HEAD), frozenset(EVERYTHING)))
        await sink.write(batch(5, below - 1), 5)
        assert await sink.expire(CHAIN_ID, below) == below - 5


def test_expired_blocks_are_refused(gapless: Gapless) -> None:
    asyncio.run(_expire(15))
    result = gapless("export", "blocks.db", "--table", "logs", "--output", "logs.csv")
    assert result.code == 1
    assert result.stderr == (
        "error: blocks 5-14 have expired: their rows were deleted after they were published\n\n"
        "hint: export other blocks with `--blocks A:B`, or fetch these into another sink\n"
    )
    assert not Path("logs.csv").exists()
    rest = gapless("export", "blocks.db", "--table", "logs", "--blocks", "15:40")
    expected = rows_of("logs", Span(15, HEAD))
    assert len([*csv.DictReader(io.StringIO(rest.stdout.decode()))]) == expected.num_rows


def test_expired_blocks_are_not_gaps(gapless: Gapless) -> None:
    asyncio.run(_expire(15))
    shown = gapless("verify", "blocks.db", "--deep")
    assert shown.code == 0, shown.stderr
    assert b"\n  expired: 5-14 (10 blocks); their rows were deleted\n" in shown.stdout
    assert b"complete: nothing is missing" in shown.stdout
    gaps = gapless("gaps", "blocks.db")
    assert (gaps.code, gaps.stdout) == (0, b"")
    assert "expired blocks: 5-14; they were stored and count as held" in gaps.stderr
    listed_gaps = json.loads(gapless("gaps", "blocks.db", "--json").stdout)
    assert (listed_gaps["gaps"], listed_gaps["expired"]) == ([], [[5, 14]])
    repaired = gapless("repair", "blocks.db", "--dry-run")
    assert repaired.code == 0
    assert "nothing to replace" in repaired.stderr
