"""Coins that moved without an event are found by what accounts had and signed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gapless
from gapless.chains.movements import NOBODY, MovementKind
from gapless.config import Config
from gapless.devnode import Chain, DevNode, Limits, simulated
from gapless.devnode.evm.dialect import accounts_of
from gapless.devnode.evm.economy import CONTRACTS, SIGNERS
from gapless.devnode.evm.postings import COINS
from gapless.devnode.limits import CallRefused
from gapless.ledger.syncs import SyncState
from gapless.wallets.categories import Category
from gapless.wallets.preview import PassPreview, preview
from gapless.wallets.records import Balance
from gapless.wallets.request import WalletOptions, build_wallets
from gapless.wallets.ways import Evidence
from tests.conformance.wallets.conftest import Add
from tests.conformance.wallets.stage import (
    HEAD,
    LAST,
    PARAMETERS,
    WALLETS,
    amounts,
    balances,
    explanation,
    history,
    octets,
    opened,
    tokens_only,
    truth,
)

LISTED = "base-goerli"  # a network on which only signatures spend, with no known genesis
CHAIN = 84_531


@pytest.fixture
def chain(cache: Path) -> Chain:
    return simulated(replace(PARAMETERS, chain_id=CHAIN), cache)


@pytest.fixture
async def node(chain: Chain) -> AsyncIterator[DevNode]:
    async with DevNode(chain) as running:
        yield running


@pytest.fixture
def add(add: Add) -> Add:
    async def run(*addresses: str, **options: Any) -> Any:
        return await add(*addresses, networks=LISTED, **options)

    return run


def signed(chain: Chain, count: int) -> list[str]:
    """The first wallets that have signed something."""
    state = accounts_of(chain).at(chain, LAST)
    return [it for it in WALLETS[:SIGNERS] if state.nonce(it)][:count]


def coins(found: list[Balance]) -> dict[str, tuple[int, bool]]:
    return {f"0x{it.wallet.hex()}": (it.amount, it.is_complete) for it in found if not it.token}


@pytest.mark.parametrize("target", ["sqlite", "postgres"], indirect=True)
async def test_all_coins_of_an_account_are_explained(
    add: Add, node: DevNode, chain: Chain, target: str
) -> None:
    wallets = signed(chain, 8)
    syncs = await add(*wallets, chunk_size=40, max_concurrent=2)
    assert {each.state for each in syncs} == {SyncState.COMPLETE}
    found = await balances(target, chain_id=CHAIN)
    state = accounts_of(chain).at(chain, LAST)
    assert coins(found) == {it: (state.balance(it), True) for it in wallets}
    assert tokens_only(amounts(found)) == tokens_only(truth(chain, LAST, wallets))
    for wallet in wallets:  # what is visible is as it is found in any other way
        shown = [it for it in await history(target) if it.entry.wallet == octets(wallet)]
        visible = [it for it in shown if it.movement.token == NOBODY]
        hidden = [it for it in visible if it.movement.kind is MovementKind.INTERNAL]
        assert {it.entry.category for it in hidden} <= {Category.IN}
        explained = explanation(chain, LAST, wallet)[COINS]
        total = sum(it.entry.direction * it.movement.amount for it in visible)
        rest = sum(it.movement.amount for it in hidden)
        assert (total - rest, rest) == (explained.visible, explained.hidden)


async def test_no_call_is_repeated_and_few_blocks_are_fetched(
    add: Add, node: DevNode, chain: Chain
) -> None:
    wallets = signed(chain, 3)
    asked: Counter[tuple[str, str]] = Counter()
    answer = chain.dialect.answer

    def counted(view: Any, call: Any) -> bytes:
        asked[call.method, bytes(call.params).decode()] += 1
        return answer(view, call)

    chain.dialect.answer = counted  # type: ignore[method-assign]
    await add(*wallets, chunk_size=40, max_concurrent=3)
    state = {"eth_getBalance", "eth_getTransactionCount", "eth_getCode", "eth_getBlockReceipts"}
    assert {it: count for it, count in asked.items() if count > 1 and it[0] in state} == {}
    assert node.calls["eth_getBlockReceipts"] < LAST / 2


async def test_an_archive_that_forgets_meanwhile_does_not_repeat_calls(
    add: Add, node: DevNode, chain: Chain, target: str
) -> None:
    """What was found before stays; the coins are not complete then."""
    wallets = signed(chain, 3)
    asked: Counter[tuple[str, str]] = Counter()
    answer = chain.dialect.answer
    known = {-1, LAST, 39, 79, 119}  # at the ends of segments

    def forgetful(view: Any, call: Any) -> bytes:
        params = bytes(call.params).decode()
        asked[call.method, params] += 1
        if call.method == "eth_getBalance" and int(json.loads(params)[1], 16) not in known:
            raise CallRefused(-32000, "missing trie node 5ab1 (path ) state 0x1 is not available")
        return answer(view, call)

    chain.dialect.answer = forgetful  # type: ignore[method-assign]
    syncs = await add(*wallets, chunk_size=40, max_concurrent=1)
    assert {each.state for each in syncs} == {SyncState.COMPLETE}
    fetched = {"eth_getLogs", "eth_getBlockByNumber", "eth_getBlockReceipts"}
    heights = {it: count for it, count in asked.items() if it[0] in fetched and '"0x' in it[1]}
    assert {it: count for it, count in heights.items() if count > 1} == {}
    assert sum(it[0] == "eth_getBalance" for it in asked) > 3 * len(known), "halving began"
    found = await balances(target, chain_id=CHAIN)
    assert not any(is_complete for _, is_complete in coins(found).values())
    assert tokens_only(amounts(found)) == tokens_only(truth(chain, LAST, wallets))
    async with opened(target) as store:
        scans = await store.scans_of(CHAIN, octets(wallets[0]))
    assert Evidence.EVENTS in {it.source for it in scans}


async def test_contracts_and_accounts_that_never_signed_stay_incomplete(
    add: Add, chain: Chain, target: str
) -> None:
    state = accounts_of(chain).at(chain, LAST)
    silent = [it for it in WALLETS[SIGNERS:-CONTRACTS] if not state.nonce(it)][:1]
    eoa, contract = signed(chain, 1)[0], WALLETS[-1]
    await add(eoa, contract, *silent)
    found = coins(await balances(target, chain_id=CHAIN))
    assert found.pop(eoa) == (state.balance(eoa), True)
    assert not any(is_complete for _, is_complete in found.values())
    async with opened(target) as store:
        sources = {
            it: {scan.source for scan in await store.scans_of(CHAIN, octets(it))}
            for it in (eoa, contract)
        }
    assert sources == {eoa: {Evidence.EVENTS, Evidence.ACCOUNTS}, contract: {Evidence.EVENTS}}


async def test_stored_blocks_above_the_search_show_only_what_is_visible(
    add: Add, node: DevNode, chain: Chain, ledger: str, target: str
) -> None:
    wallets = signed(chain, 8)
    await add(*wallets)
    above = f"{LAST + 1}:{HEAD}"
    await gapless.fetch(LISTED, above, rpc=node.url, to=target, ledger=ledger, confirmations=0)
    found = dict[str, int]()
    for wallet in wallets:
        shown = await gapless.show_wallet(wallet, to=target, ledger=ledger)
        assert shown.known_to == {LISTED: HEAD}
        (coin,) = (it for it in shown.balances if it.token is None)
        assert coin.complete
        found[wallet] = int(coin.computed_raw)
    then, now = (
        {it: explanation(chain, height, it)[COINS] for it in wallets} for height in (LAST, HEAD)
    )
    assert found == {it: now[it].visible + then[it].hidden for it in wallets}
    assert any(now[it].hidden > then[it].hidden for it in wallets), "contracts sent coins meanwhile"


async def test_without_an_archive_coins_are_not_looked_for(
    add: Add, chain: Chain, target: str
) -> None:
    wallets = signed(chain, 2)
    async with DevNode(chain, limits=Limits(state_blocks=10)) as pruned:
        await add(*wallets, rpc=pruned.url)
    assert not any(
        is_complete for _, is_complete in coins(await balances(target, chain_id=CHAIN)).values()
    )


async def test_two_archives_agree(add: Add, node: DevNode, chain: Chain, target: str) -> None:
    (wallet,) = signed(chain, 1)
    async with DevNode(chain) as second:
        await add(wallet, rpc=[node.url, second.url])
    async with opened(target) as store:
        (scan,) = await store.scans_of(CHAIN, octets(wallet))
    assert scan.source == Evidence.ACCOUNTS
    assert scan.proven == {"agreed"}


async def test_a_wallet_is_scanned_later(
    add: Add, node: DevNode, chain: Chain, target: str, ledger: str
) -> None:
    wallets = [*signed(chain, 1), WALLETS[-1]]
    (first, _) = await add(*wallets)
    (again, _) = await add(*wallets, scan=True)
    assert again.passes[: len(first.passes)] == first.passes
    assert (len(again.passes), again.heights) == (2, first.heights)
    assert again.progress.total == 2 * first.progress.total
    assert again.state is SyncState.COMPLETE
    found = coins(await balances(target, chain_id=CHAIN))
    assert all(is_complete for _, is_complete in found.values())
    before = node.calls.copy()
    await add(*wallets, scan=True)
    assert not (node.calls - before).keys() & {"eth_getBlockReceipts", "eth_getLogs"}
    book = await gapless.ledger.open_ledger(ledger)
    assert await book.check() == []
    await book.close()


async def test_a_preview_says_whether_coins_will_be_found(
    node: DevNode, chain: Chain, target: str, ledger: str
) -> None:
    async def previewed(url: str, **options: Any) -> PassPreview:
        wanted = WalletOptions(**options)  # type: ignore[typeddict-item]
        request, config = build_wallets(Config(), signed(chain, 1), [LISTED], [url], target, wanted)
        (found,) = await preview(request, config, ledger)
        return found

    archive = await previewed(node.url)
    assert archive.calls_per_change == 2 * archive.planned.backfill.chunk_size.bit_length()
    async with DevNode(chain, limits=Limits(state_blocks=10, traces=True)) as pruned:
        without = await previewed(pruned.url)
        assert (without.calls_per_change, without.source) == (None, Evidence.EVENTS)
        assert without.calls == dict.fromkeys(
            ("eth_getBlockByNumber", "eth_getBlockReceipts"), LAST + 1
        )
        traced = await previewed(pruned.url, traces=True)
        assert (traced.source, traced.calls["traces"]) == (Evidence.TRACES, LAST + 1)
