"""Several networks at once: one plan, and a failing network delays only itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import gapless
from gapless.chains.movements import MovementKind
from gapless.core.errors import Unavailable, UsageError
from gapless.devnode import DevNode, simulated
from gapless.ledger import Ledger, open_ledger
from gapless.ledger.syncs import SyncState
from gapless.runtime.engine import Engine
from tests.conformance.wallets.conftest import Add
from tests.conformance.wallets.stage import (
    ALICE,
    BOB,
    HEAD,
    LAST,
    PARAMETERS,
    WALLETS,
    amounts,
    balances,
    history,
    truth,
)

ETHEREUM, LINEA = 1, 59_144
WRAP, UNWRAP = MovementKind.WRAP, MovementKind.UNWRAP
OWN = WALLETS[:30]


@pytest.fixture
async def other(cache: Path) -> AsyncIterator[DevNode]:
    """A node of another network."""
    chain = simulated(replace(PARAMETERS, chain_id=LINEA), cache)
    async with DevNode(chain) as running:
        yield running


async def test_all_networks_are_synced(
    add: Add, node: DevNode, other: DevNode, target: str
) -> None:
    rpc = [f"custom={node.url}", f"linea={other.url}"]
    syncs = await add(ALICE, BOB, networks=["custom", "linea"], rpc=rpc, start=1)
    assert [(each.key.chain_id, each.network) for each in syncs] == [
        *[(1337, "custom"), (LINEA, "linea")] * 2
    ]
    assert {each.state for each in syncs} == {SyncState.COMPLETE}
    assert {it.chain_id for it in await balances(target, chain_id=1337)} == {1337}
    assert {it.movement.chain_id for it in await history(target)} == {1337, LINEA}


async def test_a_private_chain_with_a_public_chain_id_is_not_that_network(
    add: Add, fetch: Add, cache: Path, target: str
) -> None:
    chain = simulated(replace(PARAMETERS, chain_id=ETHEREUM), cache)
    async with DevNode(chain) as private:
        with pytest.raises(UsageError, match="not on the chain `ethereum`"):
            await add(*OWN, networks="ethereum", rpc=private.url)
        await fetch(f"0:{LAST}", rpc=private.url)
        await add(*OWN, rpc=private.url)
        await fetch(f"{LAST + 1}:{HEAD}", rpc=private.url, confirmations=0)
    followed = await history(target)
    assert max(it.movement.block_number for it in followed) > LAST
    assert not [it for it in followed if it.movement.kind in (WRAP, UNWRAP)]
    assert amounts(await balances(target, chain_id=ETHEREUM)) == truth(chain, HEAD, OWN)


async def test_an_endpoint_must_say_of_which_network_it_is(
    add: Add, node: DevNode, ledger: str
) -> None:
    with pytest.raises(UsageError, match="does not say of which"):
        await add(ALICE, networks=["custom", "linea"], rpc=[node.url, node.url])


async def test_a_failing_network_delays_only_itself(
    node: DevNode,
    other: DevNode,
    ledger: str,
    target: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gapless.toml").write_text(
        f"""
[endpoints.good]
url = "{node.url}"
network = "custom"
[endpoints.bad]
url = "{other.url}"
network = "linea"
[sinks.main]
url = "{target}"
"""
    )
    planned = await gapless.add_wallets(
        [ALICE, BOB], ["custom", "linea"], to="main", ledger=ledger, detach=True
    )
    assert {each.state for each in planned} == {SyncState.PENDING}
    await other.__aexit__(None, None, None)
    async with Engine(ledger, importing=True) as worker:

        async def states() -> dict[str, SyncState]:
            return {each.network: each.state for each in await worker.ledger.syncs()}

        async with asyncio.timeout(60):
            while (await states())["custom"] is not SyncState.COMPLETE:
                await worker.something_settled()
            await worker.ledger.close_epochs(hurry=True)
            while not any(it.is_complete for it in await balances(target)):
                await worker.something_settled()
        assert (await states())["linea"] is not SyncState.COMPLETE
    assert {it.as_of for it in await balances(target)} == {LAST}


async def test_a_network_that_cannot_be_reached_is_left_out(
    add: Add, node: DevNode, other: DevNode, ledger: str, target: str
) -> None:
    rpc = [f"linea={other.url}", f"custom={node.url}"]
    await other.__aexit__(None, None, None)
    with pytest.raises(Unavailable):
        await add(ALICE, networks=["linea", "custom"], rpc=rpc)
    async with opened_ledger(ledger) as book:
        (sync,) = await book.syncs()
    assert (sync.network, sync.state) == ("custom", SyncState.COMPLETE)
    async with DevNode(other.chain) as back:
        rpc[0] = f"linea={back.url}"
        syncs = await add(ALICE, networks=["linea", "custom"], rpc=rpc)
    assert {each.network: each.state for each in syncs} == {
        "custom": SyncState.COMPLETE,
        "linea": SyncState.COMPLETE,
    }
    node.advance(5)
    with pytest.raises(Unavailable):
        await gapless.sync_wallets(rpc=rpc, to=target, ledger=ledger)
    async with opened_ledger(ledger) as book:
        ends = {each.network: each.heights.last for each in await book.syncs()}
    assert ends["custom"] == ends["linea"] + 5
    with pytest.raises(Unavailable):
        await gapless.sync_wallets(networks="linea", rpc=rpc[0], to=target, ledger=ledger)


@asynccontextmanager
async def opened_ledger(url: str) -> AsyncIterator[Ledger]:
    ledger = await open_ledger(url, create=False)
    yield ledger
    await ledger.close()
