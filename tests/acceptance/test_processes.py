"""`--processes`: helpers share the work of a command and end with it, however either ends."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from tests.acceptance.commands import GAPLESS, PATIENCE, Commands
from tests.acceptance.test_devnode import devnode
from tests.waiting import eventually

FETCH = ("fetch", "custom", "0:335", "--to", "chain.db", "--chunk-size", "20", "--processes", "2")
SLOW = ("--rps", "250")  # for one node and all processes


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cache = tmp_path_factory.mktemp("cache")
    with devnode("--blocks", "400", "--txs", "0:3", "--cache", cache) as running:
        yield running


def helpers(pid: int) -> list[int]:
    """The children of a process."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [*map(int, found)]


def is_gone(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    try:
        return "State:\tZ" in status.read_text()
    except OSError:
        return True


async def at_work(gapless: Commands, workers: int) -> None:
    """Waits until this many processes have a chunk each."""
    query = "SELECT count(DISTINCT owner) FROM chunks WHERE status = 'RUNNING'"

    async def held() -> bool:
        with suppress(apsw.SQLError, apsw.BusyError):  # it is just being created
            return bool((await gapless.home.run(query))[0][0] >= workers)
        return False

    await eventually(held)


async def test_helpers_do_their_share_and_the_summary_includes_it(
    sqlite_gapless: Commands, url: str
) -> None:
    with sqlite_gapless.running(*FETCH, *SLOW, "--rpc", url, "--json", command=GAPLESS) as command:
        await at_work(sqlite_gapless, 2)
        stdout, _ = command.communicate(timeout=PATIENCE)
    done = json.loads(stdout)
    assert (done["state"], done["fetched"], done["gaps"]) == ("SUCCEEDED", 336, [])
    asked = done["calls"]["eth_getBlockByNumber"], done["calls"]["eth_getBlockReceipts"]
    assert asked == (337, 336)  # one of them for the final block
    assert done["batches"] == 17
    line = r"process \d: (\d+) chunks?, (\d+) blocks written in \d+ batch"
    shares = re.findall(line, sqlite_gapless.stderr())
    assert [sum(map(int, column)) for column in zip(*shares, strict=True)] == [17, 336]
    sqlite_gapless("verify", "chain.db", "--deep")


async def test_the_others_take_over_from_a_helper_that_dies(
    sqlite_gapless: Commands, url: str
) -> None:
    with sqlite_gapless.running(*FETCH, *SLOW, "--rpc", url, "--json", command=GAPLESS) as command:
        await at_work(sqlite_gapless, 2)
        os.kill(helpers(command.pid)[0], signal.SIGKILL)
        stdout, _ = command.communicate(timeout=PATIENCE)
    assert json.loads(stdout)["state"] == "SUCCEEDED"
    assert '"level":"warning","message":"a child process ended with code -9' in (
        sqlite_gapless.stderr()
    )
    sqlite_gapless("verify", "chain.db", "--deep")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
async def test_helpers_end_with_their_command(
    sqlite_gapless: Commands, url: str, number: signal.Signals, code: int
) -> None:
    with sqlite_gapless.running(*FETCH, "--rps", "60", "--rpc", url, command=GAPLESS) as command:
        await at_work(sqlite_gapless, 2)
        others = helpers(command.pid)
        assert len(others) == 1
        command.send_signal(number)
        assert command.wait(timeout=PATIENCE) == code
        await eventually(lambda: all(map(is_gone, others)))
    (left,) = await sqlite_gapless.home.run("SELECT count(*) FROM chunks WHERE status = 'RUNNING'")
    assert left[0] <= (2 if number is signal.SIGKILL else 0)  # the command's own leases expire


async def test_a_worker_with_helpers(sqlite_gapless: Commands) -> None:
    gapless = sqlite_gapless
    for name in ("a", "b", "c"):
        gapless.start("held", "--id", name, "--range", "0:9")
    worker = ("worker", "--poll", "50ms", "--slots", "default=1", "--processes", "3")
    with gapless.running(*worker, "--until-idle", "--json") as command:
        await at_work(gapless, 3)
        (gapless.folder / "go").touch()
        stdout, _ = command.communicate(timeout=PATIENCE)
    assert json.loads(stdout)["completed"] == 3
    assert sorted(gapless.ran()) == ["a:0", "b:0", "c:0"]


async def test_a_file_that_only_one_process_can_open(sqlite_gapless: Commands, url: str) -> None:
    command = ("fetch", "custom", "0:9", "--rpc", url, "--to", "chain.duckdb")
    said = sqlite_gapless(*command, "--processes", "2", code=2).stderr
    assert "`chain.duckdb` can be open in one process only" in said
    assert "hint: leave out `--processes`" in said
    assert not (sqlite_gapless.folder / "chain.duckdb").exists()
