"""`gapless worker`: it runs what others start, by queue, and reports how its runs ended."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from gapless.runtime.process_control import SAME_REQUEST
from gapless.runtime.signals import INTERRUPTED
from tests.acceptance.commands import GAPLESS, Commands
from tests.waiting import eventually

QUICK = ("worker", "--poll", "50ms")
OUTCOMES = ("completed", "failed", "given_back", "lease_lost")


def outcomes(summary: dict[str, Any]) -> dict[str, int]:
    return {name: summary[name] for name in OUTCOMES}


async def test_it_runs_what_is_started_afterwards(gapless: Commands) -> None:
    with gapless.running(*QUICK):
        await eventually(lambda: "worker_started" in gapless.stderr())
        (gapless.folder / "jobs.py").rename(gapless.folder / "late.py")  # did not exist until now
        start = ("backfill", "start", "--job", "late:days", "--detach")
        started = gapless(*start, "--range", "2024-02-27:2024-03-02").line

        await eventually(lambda: len(gapless.ran()) == 5)
        assert gapless.json("backfill", "wait", started)["state"] == "SUCCEEDED"
    assert sorted(gapless.ran())[2] == "2024-02-29"


async def test_priority_goes_before_the_backlog(gapless: Commands) -> None:
    gapless.start("copy", "--id", "history", "--queue", "backlog", "--range", "0:199",
                  "--max-concurrent", "1")  # fmt: skip
    gapless.start("copy", "--id", "head", "--queue", "priority", "--range", "0:99")

    gapless(*QUICK, "--slots", "priority=1,backlog=2", "--until-idle")

    queues = [chunk.partition(":")[0] for chunk in gapless.ran()]
    assert sorted(queues) == ["head"] * 10 + ["history"] * 20
    # Each of the three slots prefers `head`; a slot may already hold one chunk of `history`.
    assert queues.index("head") <= 1
    last_of_head = len(queues) - queues[::-1].index("head")
    assert queues[:last_of_head].count("history") <= 1 + 10


async def test_it_serves_only_its_queues(sqlite_gapless: Commands) -> None:
    gapless = sqlite_gapless
    gapless.start("copy", "--id", "mine", "--queue", "backlog")
    gapless.start("copy", "--id", "other")

    done = gapless.json(*QUICK, "--slots", "backlog=2", "--until-idle")

    assert outcomes(done) == {"completed": 5, "failed": 0, "given_back": 0, "lease_lost": 0}
    assert gapless.show("other")["state"] == "PENDING"


async def test_json_is_on_stdout_and_the_log_is_json_on_stderr(sqlite_gapless: Commands) -> None:
    gapless = sqlite_gapless
    gapless.start("noisy", "--id", "n", "--range", "0:9")
    gapless.start("picky", "--id", "p", "--range", "0:9")

    done = gapless(*QUICK, "--until-idle", "--json", "--verbose")

    assert outcomes(done.json) == {"completed": 1, "failed": 1, "given_back": 0, "lease_lost": 0}
    # What a job prints on another thread may stand before a record on the same line.
    said = [line[line.index("{") :] for line in done.stderr.splitlines() if "{" in line]
    log = [json.loads(line) for line in said]
    actions = [line["action"] for line in log if "action" in line]
    assert actions[0] == "worker_started"
    assert {"chunk_completed", "chunk_abandoned", "backfill_settled"} <= set(actions)
    (abandoned,) = (line for line in log if line.get("action") == "chunk_abandoned")
    assert (abandoned["level"], abandoned["chunk"]) == ("error", "p:0")
    assert "printed by a job" in done.stderr


async def test_sigterm_finishes_chunks_or_gives_them_back_at_once(sqlite_gapless: Commands) -> None:
    """Even if it polls rarely: that does not delay a signal."""
    gapless = sqlite_gapless
    gapless.start("held", "--id", "h", "--range", "0:9")

    with gapless.running("worker", "--poll", "1h", "--json") as worker:
        await eventually(lambda: gapless.ran() == ["h:0"])
        worker.send_signal(signal.SIGTERM)
        stdout, _ = worker.communicate(timeout=10)

    assert worker.returncode == 0
    assert json.loads(stdout)["given_back"] == 1
    assert gapless.show("h")["chunks"]["pending"] == 1


async def test_simultaneous_signals_count_as_one(sqlite_gapless: Commands) -> None:
    """`timeout` signals its child and then its group: the worker must still drain."""
    gapless = sqlite_gapless
    gapless.start("held", "--id", "h", "--range", "0:9")

    with gapless.running("worker", "--json", command=GAPLESS) as worker:
        await eventually(lambda: gapless.ran() == ["h:0"])
        for _ in range(20):
            worker.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.002)
        stdout, _ = worker.communicate(timeout=10)

    assert worker.returncode == 0
    assert json.loads(stdout)["given_back"] == 1


async def test_a_second_signal_ends_a_worker_at_once(sqlite_gapless: Commands) -> None:
    gapless = sqlite_gapless
    gapless.start("deaf", "--id", "d", "--range", "0:9")

    with gapless.running("worker", "--drain", "1h") as worker:
        await eventually(lambda: gapless.ran() == ["d:0"])
        worker.send_signal(signal.SIGTERM)
        await asyncio.sleep(SAME_REQUEST + 0.2)
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=10)

    assert worker.returncode == INTERRUPTED
    assert gapless.show("d")["chunks"]["running"] == 1  # its lease expires


def has_open(pid: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return any(each.samefile(path) for each in Path(f"/proc/{pid}/fd").iterdir())
    return False


async def test_sigterm_drains_a_worker_that_has_not_started_yet(sqlite_gapless: Commands) -> None:
    """It waits for the ledger, which another process has locked."""
    gapless = sqlite_gapless
    gapless.start("held", "--id", "h", "--range", "0:9")
    lock = apsw.Connection(str(gapless.folder / "ledger.db"))
    lock.execute("BEGIN IMMEDIATE")

    with gapless.running("worker", "--json", command=GAPLESS) as worker:
        await eventually(lambda: has_open(worker.pid, gapless.folder / "ledger.db"))
        worker.send_signal(signal.SIGTERM)
        assert "worker_started" not in gapless.stderr()
        lock.close()
        stdout, _ = worker.communicate(timeout=10)

    assert worker.returncode == 0
    ended = outcomes(json.loads(stdout))
    assert sum(ended.values()) == gapless.ran().count("h:0")  # drained, not killed
    assert gapless.show("h")["chunks"]["running"] == 0


async def test_until_idle_does_not_wait_for_work_that_it_cannot_do(
    sqlite_gapless: Commands,
) -> None:
    gapless = sqlite_gapless
    gapless.start("copy", "--id", "paused")
    gapless("backfill", "pause", "paused")
    gapless.start("copy", "--id", "foreign")
    (gapless.folder / "jobs.py").rename(gapless.folder / "gone.py")

    done = gapless(*QUICK, "--until-idle")

    assert " job=jobs:copy reason=cannot import `jobs`" in done.stderr
    reasons = [each["reason"] for each in gapless.show("foreign")["waiting"]]
    assert reasons == ["no_worker"]  # it has left


async def test_show_names_the_module_that_a_worker_lacks(sqlite_gapless: Commands) -> None:
    gapless = sqlite_gapless
    gapless.start("copy", "--id", "f")
    (gapless.folder / "jobs.py").rename(gapless.folder / "gone.py")

    with gapless.running(*QUICK):
        await eventually(lambda: "job_unresolved" in gapless.stderr())
        await eventually(lambda: gapless.show("f")["waiting"][0]["reason"] == "job_unresolved")
        (unplanned,) = gapless.show("f")["waiting"]

    assert unplanned["detail"].endswith("cannot import `jobs`: No module named 'jobs'")


async def test_it_reports_its_work_at_the_end(sqlite_gapless: Commands) -> None:
    gapless = sqlite_gapless
    gapless.start("copy", "--id", "c", "--range", "0:49")
    gapless.start("picky", "--id", "p", "--range", "0:9")

    done = gapless(*QUICK, "--until-idle")

    summary = done.stderr.splitlines()[-1]
    assert re.fullmatch(
        r"chunks: 5 completed, 1 failed in \S+; 50 partitions, \S+ partitions/s", summary
    )
    nothing = gapless.json(*QUICK, "--until-idle")
    assert (nothing["partitions"], nothing["blocks"], nothing["batches"]) == (0, 0, 0)
    assert nothing["partitions_per_second"] == 0
    assert nothing["seconds"] > 0
    idle = gapless(*QUICK, "--until-idle").stderr.splitlines()[-1]
    assert idle.startswith("chunks: none run in ")


async def test_until_idle_finishes_running_chunks_of_a_paused_backfill(
    sqlite_gapless: Commands,
) -> None:
    gapless = sqlite_gapless
    gapless.start("held", "--id", "h", "--range", "0:9")
    with gapless.running(*QUICK, "--until-idle", "--json", command=GAPLESS) as worker:
        await eventually(lambda: gapless.ran() == ["h:0"], seconds=60)
        gapless("backfill", "pause", "h")
        await asyncio.sleep(0.5)  # time for several checks whether it is idle
        (gapless.folder / "go").touch()
        stdout, _ = await asyncio.to_thread(worker.communicate, timeout=60)
    assert outcomes(json.loads(stdout))["completed"] == 1


@pytest.mark.parametrize("slots", ["2", "default=1,backlog=1"])
async def test_forms_of_slots(sqlite_gapless: Commands, slots: str) -> None:
    sqlite_gapless(*QUICK, "--slots", slots, "--until-idle")


async def test_a_job_may_fork_and_end_its_children(sqlite_gapless: Commands) -> None:
    """The signal that ends a child does not reach the worker, which would drain or ignore it."""
    gapless = sqlite_gapless
    gapless.start("forking", "--id", "p", "--range", "0:49")

    worker = gapless.json(*QUICK, "--until-idle", "--processes", "2")

    assert outcomes(worker) == {"completed": 50, "failed": 0, "given_back": 0, "lease_lost": 0}
    assert gapless.show("p")["state"] == "SUCCEEDED"


async def test_a_hanging_thread_affects_neither_the_worker_nor_its_exit_code(
    sqlite_gapless: Commands,
) -> None:
    gapless = sqlite_gapless
    start = ("backfill", "start", "--job", "jobs:stuck", "--range", "0:9", "--id", "h")
    failed = gapless(*start, "--timeout", "100ms", "--retry-limit", "0", code=1)

    assert "RunTimeout: the run took longer than 0.1 s" in failed.stderr
    assert gapless.show("h")["timeout"] == 0.1
    (attempt,) = gapless.json("dead", "show", "h:0")["attempts"]
    assert "time.sleep(3600)" in attempt["traceback"]

    gapless.start(
        "stuck", "--id", "w", "--range", "0:9", "--timeout", "100ms", "--retry-limit", "0"
    )
    assert gapless.json(*QUICK, "--until-idle")["failed"] == 1


async def test_a_hanging_call_on_a_thread_does_not_keep_the_worker_running(
    sqlite_gapless: Commands,
) -> None:
    """The job ended with its timeout, and only Python knows of the thread."""
    gapless = sqlite_gapless
    gapless.start(
        "lending", "--id", "l", "--range", "0:9", "--timeout", "100ms", "--retry-limit", "0"
    )
    assert gapless.json(*QUICK, "--until-idle", "--drain", "0s")["failed"] == 1


async def test_a_child_that_a_job_forks_does_not_act_as_a_second_worker(gapless: Commands) -> None:
    gapless.start("divided", "--id", "d", "--range", "0:9")
    assert gapless.json(*QUICK, "--until-idle")["completed"] == 1
    assert gapless.ran() == ["parent"]
