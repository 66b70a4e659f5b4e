"""Wallets at scale: a history from stored tables, and reading a large store.

The first measurement runs the real jobs on a chain of 100,000 blocks with 20 transactions each. Its
endpoint does not exist, so a request would fail it. The first wallet of a sink builds indexes: that
is measured apart, because it takes longer than the history itself. Names of tokens are known. The
second one reads a store of 1,000 wallets with 10 million movements, by the command and by the
store. The environment decides the sizes:

    WALLET_BLOCKS=100000 WALLET_MOVEMENTS=10000000 python -m bench wallets

is the whole measurement, and the default is a tenth of it.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from bench.report import Row, at_most, median
from bench.wallet_rows import (
    BLOCK_SIZE,
    CHAIN_ID,
    GROUP,
    STRANGERS,
    WALLETS,
    WalletPlace,
    address,
    fill_chain,
    fill_store,
    tokens,
    wallet_places,
)
from gapless.chains import find_network
from gapless.chains.movements import TokenFacts
from gapless.chains.opening import open_sink
from gapless.cli.app import gapless
from gapless.config import Config, load
from gapless.core.ranges import RangeSet, Span
from gapless.ledger import Ledger, open_ledger
from gapless.ledger.records import ClaimRequest
from gapless.ledger.syncs import SyncState, Wallet
from gapless.providers import Providers
from gapless.wallets.adding import Added
from gapless.wallets.plan import NAME, VERSION, WalletChain, planner
from gapless.wallets.records import HistoryFilter, Page
from gapless.wallets.request import WalletsRequest, build_wallets, rules_of
from gapless.wallets.running import SilentWalletObserver, run_wallets
from gapless.wallets.store import WalletStore
from tests.conformance.sink.stage import batch

BLOCKS = int(os.environ.get("WALLET_BLOCKS", "10000"))
MOVEMENTS = int(os.environ.get("WALLET_MOVEMENTS", "1000000"))
ROUNDS = 7
HISTORY_SECONDS, READ_MS = 5.0, 100.0
NETWORK = replace(find_network("custom"), chain_id=CHAIN_ID)
NOWHERE = "http://127.0.0.1:9"
US = address(1)


async def measure() -> AsyncIterator[Row]:
    for measured in (_from_tables, _from_store):
        with wallet_places(measured.__name__.strip("_")) as places:
            for place in places:
                async for row in measured(place):
                    yield row


async def _from_tables(place: WalletPlace) -> AsyncIterator[Row]:
    """A wallet's history from stored tables: searched, stored, classified and summed."""
    async with await open_sink(place.target) as sink:
        await sink.write(batch(0, 9), 1)  # which creates the tables
    await fill_chain(place, BLOCKS)
    async with await open_sink(place.target) as sink:
        store, rules = WalletStore.of(sink), rules_of(NETWORK)
        started = time.perf_counter()
        await store.find_rows(rules, NETWORK, [US], Span(0, 0))
        seconds = time.perf_counter() - started
        size = f"{BLOCKS:,} x {BLOCK_SIZE} transactions"
        yield Row(f"building indexes for wallets, {place.name}", f"{size}: {seconds:.1f} s")
        # A node is asked only for unknown names, and here there is none.
        await store.put_tokens(CHAIN_ID, {each: TokenFacts("ERC-20", "T") for each in tokens()})
        sink_id = sink.id
    taken = []
    for number in (1, 7 + 1000):  # the second one has never been searched for, in a warm process
        async with (
            _wallets(place, sink_id, [address(number)], BLOCKS - 1) as (added, config, book),
            Providers(8) as providers,
        ):
            started = time.perf_counter()
            syncs = await run_wallets(added, config, book, providers, SilentWalletObserver())
            taken.append(time.perf_counter() - started)
        assert [each.state for each in syncs] == [SyncState.COMPLETE]
    async with await open_sink(place.target) as sink:
        found = await WalletStore.of(sink).entries(GROUP, [US], page=Page(limit=2**31))
    assert len(found) == BLOCKS * BLOCK_SIZE // 2000 * 5, len(found)
    yield Row(
        f"a wallet's history from tables, s, {place.name}",
        f"{len(found):,} movements; another wallet: {taken[1]:.2f} s",
        taken[0],
        at_most(HISTORY_SECONDS),
    )


async def _from_store(place: WalletPlace) -> AsyncIterator[Row]:
    """Reading a wallet, next to many others with long histories."""
    async with await open_sink(place.target) as sink:
        store = WalletStore.of(sink)
        await store.remove_members("nobody", CHAIN_ID, [])  # which creates the tables
        sink_id = sink.id
    everybody = [address(number) for number in range(WALLETS)]
    async with _wallets(place, sink_id, everybody, MOVEMENTS // 10 - 1) as (added, _, book):
        name = (await book.backfill(added.syncs[0].passes[0])).spec["address_set"]
        last = await fill_store(place, MOVEMENTS, name)
        wish = ClaimRequest(
            "bench", "1" * 32, ((await book.backfills())[0].queue,), ((NAME, VERSION),), 365
        )
        await book.complete(await book.claim(wish))
        size = f"{WALLETS:,} wallets, {MOVEMENTS:,} movements"
        yield Row(f"reading wallets, {place.name}", size)
        text = f"0x{US.hex()}"
        sink_of = ("--sink", place.target)
        for title, arguments in {
            "wallet show": ("show", text, *sink_of),
            "wallet history": ("history", text, *sink_of),
            "wallet balances": ("balances", text, *sink_of),
            "wallet ls --matrix": ("ls", "--matrix", "--limit", "1000"),
        }.items():
            command = _command(("wallet", *arguments, "--ledger", book.url, "--json"))
            ms = await _milliseconds(partial(asyncio.to_thread, command))
            yield Row(f"`{title}`, ms, {place.name}", "", ms, at_most(READ_MS))
        async with await open_sink(place.target) as sink:
            store = WalletStore.of(sink)
            for title, read in _readings(store, last).items():
                ms = await _milliseconds(read)
                yield Row(f"{title}, ms, {place.name}", "", ms, at_most(READ_MS))


def _readings(store: WalletStore, last: int) -> dict[str, Callable[[], Awaitable[Any]]]:
    page = Page()
    middle = HistoryFilter(until=1_600_000_000 + 6 * last)
    token = HistoryFilter(tokens=(address(501),))
    party = HistoryFilter(counterparties=(address(WALLETS + 7 % STRANGERS),))
    nobody = HistoryFilter(counterparties=(address(10**9),))
    wallets = [address(number) for number in range(20)]
    return {
        "a group's history": lambda: store.entries(GROUP),
        "a group's history, second half": lambda: store.entries(GROUP, None, middle, page),
        "20 wallets' history": lambda: store.entries(GROUP, wallets),
        "a wallet's history of a token": lambda: store.entries(GROUP, [US], token, page),
        "a wallet's history with somebody": lambda: store.entries(GROUP, [US], party, page),
        "a wallet's history with nobody": lambda: store.entries(GROUP, [US], nobody, page),
        "a wallet's movements": lambda: store.movements(CHAIN_ID, [US]),
        "a wallet's balances at a block": lambda: store.balances_at(
            GROUP, US, CHAIN_ID, height=last // 2
        ),
        "a wallet's balances at a time": lambda: store.balances_at(
            GROUP, US, CHAIN_ID, time=1_600_000_000 + 6 * last
        ),
    }


@asynccontextmanager
async def _wallets(
    place: WalletPlace, sink_id: str, addresses: Sequence[bytes], last: int
) -> AsyncIterator[tuple[Added, Config, Ledger]]:
    """Wallets in a new ledger, planned as `wallet add` plans them, without asking a node."""
    texts = [f"0x{each.hex()}" for each in addresses]
    request, config = build_wallets(load({}), texts, ["custom"], [NOWHERE], place.target, {})
    chain = WalletChain(
        wallets=request.networks[0],
        chain_id=CHAIN_ID,
        sink_id=sink_id,
        start=0,
        final=last,
        stored=RangeSet.of(Span(0, last)),
        finds_events=True,
    )
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder:
        ledger = await open_ledger(f"sqlite:///{Path(folder)}/ledger.db")
        await ledger.raise_fence(10)
        ids = iter(f"pass-{number}" for number in range(10))
        plan = planner(request, [chain], "default", lambda: next(ids), detached=False)
        syncs = await ledger.add_wallets(_rows(request), plan, lambda: next(ids))
        yield Added(request, (chain,), syncs, ()), config, ledger
        await ledger.close()


def _rows(request: WalletsRequest) -> list[Wallet]:
    return [Wallet(request.group, each) for each in request.addresses]


def _command(arguments: Sequence[str]) -> Callable[[], None]:
    def run() -> None:
        found = CliRunner().invoke(gapless, arguments, standalone_mode=False)
        assert found.exception is None, found.output
        assert found.stdout.startswith(("{", "[")), found.output

    return run


async def _milliseconds(read: Callable[[], Awaitable[Any]]) -> float:
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await read()
        taken.append(time.perf_counter() - started)
    return 1000 * median(taken)
