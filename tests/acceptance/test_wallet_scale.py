"""A hundred wallets on three networks at once: what they cost, and what stops them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest

import gapless
from gapless.chains import find_network
from gapless.devnode import Chain, DevNode, Pace, simulated
from gapless.devnode.dialect import Asked, CallOutcome
from gapless.devnode.evm.dialect import accounts_of
from gapless.devnode.subscriptions import Subscriber
from gapless.devnode.view import MethodCall
from gapless.ledger.syncs import SyncState
from tests.acceptance.fleet import Fleet, until
from tests.conformance.sink.conftest import target_of
from tests.conformance.wallets.stage import (
    ALICE,
    LAST,
    PARAMETERS,
    WALLETS,
    amounts,
    balances,
    tokens_only,
    truth,
)
from tests.support import Home, PostgresHome, SqliteHome, open_at

# On two of them, balances and nonces show how coins moved.
NETWORKS = {"custom": 1337, "base-goerli": 84_531, "optimism-sepolia": 11_155_420}
OWN = WALLETS[:100]
_SLOTS = 12  # of which one network may take four, and does while its node is away
_ABOUT_THE_CHAIN = {"eth_chainId", "eth_blockNumber", "web3_clientVersion"}
_LOGS = "eth_getLogs"
_HEADERS = ("eth_getBlockByNumber", "eth_getBlockByHash")
_RECEIPTS = ("eth_getBlockReceipts", "eth_getTransactionReceipt")
_ACCOUNTS = ("eth_getBalance", "eth_getTransactionCount", "eth_getCode")
_UNANCHORED = """
from gapless.chains import find_network
object.__setattr__(find_network("optimism-sepolia"), "anchors", ())
"""


class Witness(DevNode):
    """A node that remembers what it was asked about blocks, and where it has found events."""

    def __init__(self, chain: Chain) -> None:
        super().__init__(chain, pace=Pace(latency=0.005))
        self.asked: Counter[tuple[str, bytes]] = Counter()
        self.hits: set[int] = set()

    def _one(
        self, call: MethodCall | None, asked: Asked, subscriber: Subscriber | None
    ) -> CallOutcome:
        if call is not None and call.method not in _ABOUT_THE_CHAIN:
            self.asked[call.method, bytes(call.params)] += 1
        outcome = super()._one(call, asked, subscriber)
        if call is not None and call.method == _LOGS:
            logs = msgspec.json.decode(outcome.result)
            self.hits |= {int(log["blockNumber"], 16) for log in logs}
        return outcome


@pytest.fixture
def chains(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Chain]:
    cache = tmp_path_factory.getbasetemp() / "scale"
    return {
        name: simulated(replace(PARAMETERS, chain_id=chain_id), cache)
        for name, chain_id in NETWORKS.items()
    }


@pytest.fixture(autouse=True)
def unanchored() -> Iterator[None]:
    """Lets a simulated chain have the id of a network whose first block is known."""
    network = find_network("optimism-sepolia")
    anchors = network.anchors
    exec(_UNANCHORED)
    yield
    object.__setattr__(network, "anchors", anchors)


@pytest.fixture
async def nodes(chains: dict[str, Chain]) -> AsyncIterator[dict[str, Witness]]:
    async with AsyncExitStack() as stack:
        found = {name: Witness(chain) for name, chain in chains.items()}
        for each in found.values():
            await stack.enter_async_context(each)
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Home, str]:
    """A ledger and a sink, in the same database."""
    if request.param == "sqlite":
        return SqliteHome(tmp_path / "ledger.db"), str(tmp_path / "w.db")
    return PostgresHome(request.getfixturevalue("postgres_url")), target_of(request, "postgres")


class Costs(NamedTuple):
    """What a node was asked, and the blocks with events that it has found."""

    calls: Counter[tuple[str, bytes]]
    hits: frozenset[int]

    def of(self, *methods: str) -> list[bytes]:
        return [params for method, params in self.calls.elements() if method in methods]


async def test_a_hundred_wallets_on_three_networks_cost_hardly_more_than_one(
    nodes: dict[str, Witness],
    chains: dict[str, Chain],
    place: tuple[Home, str],
    tmp_path: Path,
) -> None:
    rpc = [f"{name}={node.url}" for name, node in nodes.items()]

    async def asked_for(ledger: str, to: str, *wallets: str) -> dict[str, Costs]:
        """What adding wallets, to a sink and a ledger of their own, asks the nodes."""
        for node in nodes.values():
            node.asked.clear()
            node.hits.clear()
        given = {"rpc": rpc, "to": to, "ledger": ledger, "chunk_size": 20}
        syncs = await gapless.add_wallets(wallets, [*NETWORKS], **given)  # type: ignore[arg-type]
        assert {each.state for each in syncs} == {SyncState.COMPLETE}
        assert len(syncs) == len(wallets) * len(NETWORKS)
        return {name: Costs(it.asked.copy(), frozenset(it.hits)) for name, it in nodes.items()}

    alone = (f"sqlite:///{tmp_path}/alone-ledger.db", str(tmp_path / "alone.db"))
    home, target = place
    one = await asked_for(*alone, ALICE)
    many = await asked_for(home.url, target, *OWN)
    for name, chain in chains.items():
        assert 0 < len(many[name].of(_LOGS)) <= 1.5 * len(one[name].of(_LOGS))
        for asked, wallets in ((one[name], [ALICE]), (many[name], OWN)):
            changed = set() if name == "custom" else _changed(chain, wallets)
            headers = [it for it in asked.of(*_HEADERS) if b"finalized" not in it]
            receipts = asked.of(*_RECEIPTS)
            assert 0 < len(headers) == len(receipts) <= len(asked.hits | changed), name
            assert bool(asked.of(*_ACCOUNTS)) == (name != "custom")
            twice = {call: times for call, times in asked.calls.items() if times > 1}
            assert not twice, f"{name}: {twice}"


def _changed(chain: Chain, wallets: Sequence[str]) -> set[int]:
    """The blocks that changed the coins or the nonce of a wallet."""

    def at(height: int) -> list[tuple[int, int]]:
        state = accounts_of(chain).at(chain, height)
        return [(state.balance(it), state.nonce(it)) for it in wallets]

    found = {height for height in range(1, LAST + 1) if at(height - 1) != at(height)}
    return {0, *found}  # accounts have something in the first block


async def test_a_network_that_is_away_and_killed_workers_delay_nobody_else(
    nodes: dict[str, Witness],
    chains: dict[str, Chain],
    place: tuple[Home, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (home, target), away = place, "base-goerli"
    settings = tmp_path / "gapless.toml"
    endpoints = [
        f'[endpoints.{name}]\nurl = "{node.url}"\nnetwork = "{name}"\n'
        for name, node in nodes.items()
    ]
    settings.write_text("".join(endpoints) + f'[sinks.main]\nurl = "{target}"\n')
    monkeypatch.setenv("GAPLESS_CONFIG", str(settings))
    again = {"to": "main", "ledger": home.url, "detach": True, "chunk_size": 20}
    await gapless.add_wallets(OWN, [*NETWORKS], **again)  # type: ignore[arg-type]
    port = urlsplit(nodes[away].url).port
    assert port is not None
    await nodes[away].__aexit__(None, None, None)
    ledger = await open_at(home)
    done: Counter[str] = Counter()

    async def advanced(networks: set[str], segments: int | None) -> bool:
        """Whether all wallets have this progress, which never shrinks; None: all of it."""
        for each in await ledger.syncs():
            key = f"{each.network} {each.key.address}"
            assert each.progress.done >= done[key], "progress was lost"
            done[key] = each.progress.done
            if each.network in networks:
                is_complete = each.state is SyncState.COMPLETE
                if not (is_complete or (segments and each.progress.done >= segments)):
                    return False
        return True

    others = {*NETWORKS} - {away}
    try:
        async with Fleet.at(home.url, tmp_path) as fleet:
            first = fleet.worker(slots=_SLOTS, prelude=_UNANCHORED)
            await until(lambda: advanced(others, 1), "a segment of the networks that answer")
            first.kill()
            fleet.worker(slots=_SLOTS, prelude=_UNANCHORED)
            await until(lambda: advanced(others, None), "all of the networks that answer")
            assert not await advanced({away}, None)
            async with DevNode(chains[away], address=("127.0.0.1", port)):
                await gapless.add_wallets(OWN, away, **again)  # type: ignore[arg-type]
                await until(lambda: advanced({*NETWORKS}, None), "all networks")

                async def classified() -> bool:
                    await ledger.close_epochs(hurry=True)
                    found = [await balances(target, chain_id=it) for it in NETWORKS.values()]
                    return all(any(it.is_complete for it in its) for its in found)

                await until(classified, "balances of all networks")
    finally:
        await ledger.close()
    for name, chain_id in NETWORKS.items():
        found = amounts(await balances(target, chain_id=chain_id))
        assert tokens_only(found) == tokens_only(truth(chains[name], LAST, OWN)), name
