"""`gapless.fetch` and `gapless.verify`, as programs call them."""

from __future__ import annotations

import signal
import sys
import time
from asyncio import create_subprocess_exec, gather, to_thread
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gapless
from gapless.config import Config, SinkTarget
from gapless.core.backfill import State
from gapless.core.errors import Incomplete, UsageError
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import Chain, DevNode, Pace
from gapless.ledger import Ledger, open_ledger
from tests.conformance.fetch.stage import contents, truth
from tests.waiting import eventually

Fetch = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_a_single_url_and_paths_are_accepted(
    chain: Chain, node: DevNode, folder: Path
) -> None:
    file = await gapless.fetch("custom", (10, 19), rpc=node.url, to=folder / "chain.db")
    parquet = await gapless.fetch("custom", range(10, 20), rpc=[node.url], to=folder / "chain")
    assert (file.span, parquet.span) == (Span(10, 19), Span(10, 19))
    for place in ("chain.db", "chain/"):
        assert await contents(place) == truth(chain, Span(10, 19))


async def test_fetches_at_the_same_time_share_one_budget(
    chain: Chain, node: DevNode, folder: Path
) -> None:
    began = time.monotonic()
    async with gapless.Providers() as providers:

        async def store(first: int, to: str) -> None:
            shared: dict[str, Any] = {"rps": 60, "providers": providers}
            span, own = Span(first, first + 79), f"sqlite:///{to}-ledger"
            await gapless.fetch("custom", span, rpc=node.url, to=to, ledger=own, **shared)
            assert await contents(to) == truth(chain, span)

        await gather(store(0, "one.db"), store(100, "two.db"))
    assert sum(node.calls.values()) < 60 * (time.monotonic() - began + 1)


async def test_a_fetch_opens_its_ledger_once(
    node: DevNode, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []

    async def counting(*arguments: Any, **named: Any) -> Ledger:
        ledger = await open_ledger(*arguments, **named)
        opened.append(True)  # a missing ledger is not opened
        return ledger

    for module in ("gapless.blocks.session", "gapless.runtime.engine"):
        monkeypatch.setattr(f"{module}.open_ledger", counting)
    for nth, heights in enumerate(("0:9", "0:19", "0:19"), 1):  # new, with work, without work
        await gapless.fetch("custom", heights, rpc=node.url, to="chain.db")
        assert len(opened) == nth


async def test_a_job_gets_the_configuration_that_its_engine_was_given(folder: Path) -> None:
    given, seen = Config(sinks={"here": SinkTarget("x.db")}), list[Config]()

    @gapless.job(partitions=gapless.block_heights())
    async def look(chunk: gapless.Chunk, context: gapless.Context) -> None:
        seen.append(context.config)

    async with gapless.Engine("sqlite:///ledger.db", config=given) as engine:
        await (await engine.backfill(look, gapless.Range("0", "0"))).wait()
    assert seen == [given]


async def test_progress_is_reported_to_the_end(node: DevNode, fetch: Fetch) -> None:
    await fetch(node, heights="0:49")
    reports: list[gapless.FetchProgress] = []
    await fetch(node, heights="0:149", progress=reports.append)
    assert [it.total for it in reports] == [150] * len(reports)
    assert (reports[0].stored, reports[0].fetched) == (50, 0)
    assert (reports[-1].stored, reports[-1].fetched) == (150, 100)
    assert [it.stored for it in reports] == sorted(it.stored for it in reports)
    assert reports[-1].blocks_per_second > 0


async def test_an_error_in_the_callback_loses_nothing(
    chain: Chain, node: DevNode, fetch: Fetch, stored: Fetch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0

    def progress(_: gapless.FetchProgress) -> None:
        nonlocal calls
        calls += 1
        raise ZeroDivisionError("a share of nothing")

    result = await fetch(node, heights="0:99", progress=progress)
    assert (result.state, result.gaps, calls) == (State.SUCCEEDED, RangeSet(), 1)
    assert await stored() == truth(chain, Span(0, 99))
    (warning,) = [it for it in caplog.records if it.levelname == "WARNING"]
    assert warning.getMessage() == "progress_failed error=ZeroDivisionError: a share of nothing"


async def test_what_is_stored_is_verified(
    node: DevNode, fetch: Fetch, target: str, ledger: str
) -> None:
    fetched = await fetch(node, heights="5:60")
    for report in (
        await gapless.verify(target),
        await gapless.verify(Path(target), deep=True),
        await gapless.verify(fetched.id, ledger=ledger),
        await gapless.verify(target, network="custom", heights=(10, 20)),
    ):
        assert (report.complete, report.gaps, report.findings) == (True, RangeSet(), ())
    missing = await gapless.verify(target, heights=range(101))
    assert (missing.complete, missing.gaps) == (False, RangeSet.of((0, 4), (61, 100)))
    with pytest.raises(Incomplete, match="holds no blocks of ethereum"):
        await gapless.verify(target, network="ethereum")


async def test_without_an_event_loop_they_block(node: DevNode, folder: Path) -> None:
    def program() -> tuple[gapless.FetchResult, gapless.Report]:
        result = gapless.fetch_sync("custom", "0:9", rpc=node.url, to="chain.db")
        return result, gapless.verify_sync("chain.db", deep=True)

    result, report = await to_thread(program)
    assert (result.fetched, report.complete) == (10, True)


async def test_within_an_event_loop_they_say_what_to_write(node: DevNode) -> None:
    message = "`fetch_sync` would block the running event loop"
    with pytest.raises(UsageError, match=message) as refused:
        gapless.fetch_sync("custom", "0:9", rpc=node.url, to="chain.db")
    assert refused.value.hint == "use `await gapless.fetch(…)`"
    with pytest.raises(UsageError, match="`verify_sync` would block"):
        gapless.verify_sync("chain.db")


async def test_a_blocking_fetch_can_be_interrupted_and_resumed(chain: Chain, folder: Path) -> None:
    async with DevNode(chain, pace=Pace(latency=0.02)) as node:
        wanted = f'"custom", "0:200", rpc="{node.url}", to="chain.db", batch_size=10'
        # The process that started the tests may ignore Ctrl-C.
        heed = "signal.signal(signal.SIGINT, signal.default_int_handler)"
        program = f"import gapless, signal; {heed}; print(gapless.fetch_sync({wanted}).fetched)"
        running = await create_subprocess_exec(sys.executable, "-c", program, stderr=PIPE)
        try:
            await eventually(lambda: node.calls["eth_getBlockReceipts"] > 60)
            running.send_signal(signal.SIGINT)
            _, said = await running.communicate()
        finally:
            if running.returncode is None:
                running.kill()
        assert running.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
        assert b"KeyboardInterrupt" in said
        before = (await contents("chain.db"))["blocks"].num_rows
        assert 0 < before < 201
        again = await gapless.fetch("custom", "0:200", rpc=node.url, to="chain.db")
    assert (again.state, again.fetched) == (State.SUCCEEDED, 201 - before)


@pytest.mark.parametrize(
    ("option", "meant"), [("anchor", "`anchors`"), ("verfy", "`verify`"), ("dataset", "`datasets`")]
)
async def test_an_unknown_option_is_refused(
    node: DevNode, folder: Path, option: str, meant: str
) -> None:
    options: dict[str, Any] = {option: "x"}
    with pytest.raises(UsageError, match=f"`fetch` has no option `{option}`") as refused:
        await gapless.fetch("custom", "0:9", rpc=node.url, to="chain.db", **options)
    assert meant in (refused.value.hint or "")
    assert not (folder / "chain.db").exists()
