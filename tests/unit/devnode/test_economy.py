"""A chain with an economy is valid, and its accounts are consistent on all branches."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless.core.errors import UsageError
from gapless.devnode import Chain, Limits, Parameters, simulated
from gapless.devnode.evm.accounts import CODE, Accounts, AccountState
from gapless.devnode.evm.contents import Author
from gapless.devnode.evm.dialect import accounts_of
from gapless.devnode.evm.drafts import TRANSFER, World
from gapless.devnode.evm.economy import CONTRACTS, DEPOSIT, SIGNERS, WITHDRAWAL, WRAPPED
from gapless.devnode.evm.postings import COINS, VISIBLE, Cause, PostedAsset, Posting, postings
from gapless.devnode.view import View
from tests.examples import examples
from tests.unit.devnode.asking import assert_valid
from tests.unit.devnode.conftest import ECONOMY
from tests.unit.devnode.shown import NOBODY, account, number, shown, transactions

SMALL = Parameters(blocks=38, txs=20, fewest=0, empty_every=5, economy=True)
WORLD = World(ECONOMY.seed)


def posted_at(chain: Chain, height: int, parameters: Parameters = ECONOMY) -> Iterator[Posting]:
    """The changes of balances in a block, except rebases."""
    author, branch = Author(parameters), chain.branch(height)
    return postings(author.contents(author.chance(branch, height), height), author.world)


def posted(chain: Chain, last: int) -> list[Posting]:
    """All of them up to a block."""
    return [posting for at in range(last + 1) for posting in posted_at(chain, at)]


def everybody(chain: Chain) -> set[str]:
    return {each.account for each in posted(chain, chain.head)}


def test_every_block_is_proven_at_the_highest_level(economy: Chain) -> None:
    assert_valid(economy)
    economy.reorg(60)
    economy.grow(2)
    assert_valid(economy, 50)


def test_the_chain_is_another_one_than_without(economy: Chain, chain: Chain) -> None:
    assert economy.hash(0) != chain.hash(0) or economy.hash(1) != chain.hash(1)
    with pytest.raises(ValueError, match="no economy"):
        accounts_of(chain)


def test_the_chain_is_that_of_this_version(economy: Chain) -> None:
    """Changing what happens in an economy requires a new version; otherwise caches would keep old
    blocks, which the accounts do not fit."""
    digest = "0x138849eb4386731501f4b86dc6c659ac8edd0749780679bc125077e78ca996a3"
    assert economy.hash(120) == digest


def test_a_tron_chain_has_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no economy"):
        simulated(SMALL, tmp_path, family="tron")


def test_it_contains_what_a_history_must_cope_with(economy: Chain) -> None:
    causes = Counter(each.cause for each in posted(economy, economy.head) if each.amount)
    assert set(causes) == set(Cause) - {Cause.REBASE}
    miners = {json.loads(economy.block(at))["miner"] for at in range(economy.head + 1)}
    assert miners & set(WORLD.wallets)
    found: Counter[str] = Counter()
    for _, transaction, receipt in transactions(economy, economy.head):
        sender, value = transaction["from"], number(transaction["value"])
        found["failed payment"] += receipt["status"] == "0x0" and value > 0
        found["payment to oneself"] += transaction["to"] == sender and value > 0
        found["payment of a contract"] += transaction["to"] in WORLD.wallets[-CONTRACTS:]
        for log in receipt["logs"]:
            topics = log["topics"]
            found["wrapping"] += topics[:1] == [DEPOSIT] and log["address"] == WRAPPED
            found["unwrapping"] += topics[:1] == [WITHDRAWAL]
            found["another deposit"] += topics[:1] == [DEPOSIT] and log["address"] != WRAPPED
            if topics[:1] != [TRANSFER] or len(topics) != 3:
                continue
            owner, target = account(topics[1]), account(topics[2])
            found["spoof"] += number(log["data"]) == 0 and owner not in (sender, NOBODY)
            found["forgery"] += log["address"] == WORLD.forged and owner != sender
            found["burn"] += target == NOBODY
            found["token for oneself"] += owner == target
    assert min(found.values()) > 0, found
    assert len(found) == 10


def test_a_branch_and_its_sibling_continue_the_same_nonces(economy: Chain) -> None:
    economy.reorg(70)
    economy.reorg(100, extra=-5)
    economy.grow(20)
    seen: Counter[str] = Counter()
    for height, transaction, _ in transactions(economy, economy.head):
        assert number(transaction["nonce"]) == seen[transaction["from"]], height
        seen[transaction["from"]] += 1
    assert set(seen) == set(WORLD.wallets[:SIGNERS])
    state = accounts_of(economy).at(economy, economy.head)
    assert {each: state.nonce(each) for each in seen} == seen


@pytest.mark.parametrize("height", [0, 1, 60, 119, 120])
def test_what_is_visible_is_what_blocks_and_receipts_show(economy: Chain, height: int) -> None:
    sums, state = shown(economy, height), accounts_of(economy).at(economy, height)
    seen = 0
    for each in everybody(economy):
        explained = {asset: it.visible for asset, it in state.explained(each).items() if it.visible}
        assert explained == {asset: amount for asset, amount in sums[each].items() if amount}
        seen += len(explained)
    assert height == 0 or seen > 0


def test_what_is_hidden_is_the_rest(economy: Chain) -> None:
    state = accounts_of(economy).at(economy, economy.head)
    hidden: dict[str, Counter[PostedAsset]] = defaultdict(Counter)
    for each in posted(economy, economy.head):
        if each.cause not in VISIBLE:
            hidden[each.account][each.asset] += each.amount
    for who in everybody(economy):
        for asset, explained in state.explained(who).items():
            assert state.balance(who, asset) == explained.visible + explained.hidden
            if asset.token != WORLD.rebasing:
                assert explained.hidden == hidden[who][asset]


def test_without_the_wrapping_contract_less_is_visible(economy: Chain) -> None:
    state = accounts_of(economy).at(economy, economy.head)
    unknown = VISIBLE - {Cause.WRAPPING}
    differing = set[PostedAsset]()
    for wallet in WORLD.wallets:
        some, less = state.explained(wallet), state.explained(wallet, visible=unknown)
        assert {asset: it.balance for asset, it in some.items()} == {
            asset: it.balance for asset, it in less.items()
        }
        differing |= {asset for asset in some if some[asset] != less[asset]}
    assert differing == {COINS, PostedAsset(WRAPPED)}


def test_a_rebase_changes_all_balances_without_an_event(economy: Chain) -> None:
    accounts, token = accounts_of(economy), PostedAsset(WORLD.rebasing)
    assert json.loads(economy.receipts(80)) == []
    for wallet in WORLD.wallets[:SIGNERS]:
        before, after = (accounts.at(economy, at).explained(wallet)[token] for at in (79, 80))
        assert before.visible == after.visible
        assert before.hidden != after.hidden


def test_wrapped_coins_are_all_there(economy: Chain) -> None:
    people = everybody(economy)
    for height in (0, 50, 120):
        state = accounts_of(economy).at(economy, height)
        tokens = sum(state.balance(each, PostedAsset(WRAPPED)) for each in people)
        assert state.balance(WRAPPED) == tokens


def test_coins_come_from_rewards_and_withdrawals_and_end_as_fees(economy: Chain) -> None:
    created: Counter[Cause] = Counter()
    for each in posted(economy, economy.head):
        if each.asset == COINS:
            created[each.cause] += each.amount
    assert {cause for cause, amount in created.items() if amount} == {
        *(Cause.ALLOCATION, Cause.REWARD, Cause.WITHDRAWAL, Cause.FEE)
    }
    assert created[Cause.FEE] < 0


def test_an_item_has_one_owner(economy: Chain) -> None:
    state, people = accounts_of(economy).at(economy, economy.head), everybody(economy)
    owned: dict[PostedAsset, set[str]] = defaultdict(set)
    items = set[PostedAsset]()
    for each in people:
        for asset, it in state.explained(each).items():
            if asset.token in WORLD.collections:
                items.add(asset)
                assert it.balance in (0, 1)
                assert it.hidden == 0
                if it.balance:
                    owned[asset].add(each)
    assert all(len(owners) == 1 for owners in owned.values())
    assert {asset: {state.owner(asset)} for asset in owned} == owned
    burned = items - set(owned)
    assert burned
    assert {state.owner(asset) for asset in burned} == {""}


@settings(deadline=None, max_examples=examples(8))
@given(seed=st.integers(), txs=st.integers(1, 12), reorgs=st.lists(st.integers(1, 40), max_size=3))
def test_no_balance_is_ever_negative(
    tmp_path_factory: pytest.TempPathFactory, seed: int, txs: int, reorgs: list[int]
) -> None:
    parameters = Parameters(blocks=40, txs=txs, fewest=0, seed=seed, economy=True)
    chain = simulated(parameters, tmp_path_factory.mktemp("cache"))
    for height in reorgs:
        chain.reorg(height)
    accounts = accounts_of(chain)
    for height in range(chain.head + 1):
        state = accounts.at(chain, height)
        for each in posted_at(chain, height, parameters):
            assert state.balance(each.account, each.asset) >= 0


def pictured(state: AccountState, world: World) -> list[object]:
    """Everything that can be asked about some accounts."""
    some = (*world.wallets, WRAPPED, world.treasury)
    return [(each, state.nonce(each), state.code(each), state.explained(each)) for each in some]


@settings(deadline=None, max_examples=examples(8))
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("grow"), st.integers(1, 4)),
            st.tuples(st.just("reorg"), st.integers(1, 40)),
            st.tuples(st.just("ask"), st.integers(0, 100)),
        ),
        max_size=8,
    )
)
@example([("reorg", 37), ("grow", 4)])
def test_the_order_of_questions_and_reorganisations_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    chain = simulated(SMALL, tmp_path_factory.mktemp("cache"))
    accounts = accounts_of(chain)
    for what, size in steps:
        if what == "grow":
            chain.grow(size)
        elif what == "reorg":
            accounts.at(chain, chain.head).nonce(WRAPPED)  # what will be replaced was folded
            chain.reorg(max(1, chain.head - size), extra=size % 3 - 1)
        else:
            height = chain.head * size // 100
            assert_fresh(accounts, chain, height)
    assert_fresh(accounts, chain, chain.head)


def assert_fresh(accounts: Accounts, chain: Chain, height: int) -> None:
    """What was folded and cut before makes no difference."""
    fresh = Accounts(Author(SMALL))
    expected = pictured(fresh.at(chain, height), fresh.world)
    assert pictured(accounts.at(chain, height), accounts.world) == expected


def test_a_replaced_branch_has_its_own_accounts(economy: Chain) -> None:
    accounts = accounts_of(economy)
    before = pictured(accounts.at(economy, 120), WORLD)
    economy.reorg(100)
    assert pictured(accounts.at(economy, 120), WORLD) != before
    flapping = View(economy, 120, Limits(), replaced=economy.replaced)
    assert pictured(accounts.at(flapping, 120), WORLD) == before


def test_contracts_have_code_from_the_start_or_when_they_are_created(economy: Chain) -> None:
    accounts = accounts_of(economy)
    creations = [
        (height, receipt["contractAddress"])
        for height, _, receipt in transactions(economy, economy.head)
        if receipt["contractAddress"]
    ]
    assert creations
    for height, contract in creations:
        before, after = accounts.at(economy, height - 1), accounts.at(economy, height)
        assert (before.code(contract), before.nonce(contract)) == ("", 0)
        assert (after.code(contract), after.nonce(contract)) == (CODE, 1)
    genesis = accounts.at(economy, 0)
    assert genesis.code(WORLD.wallets[-1]) == genesis.code(WRAPPED) == CODE
    assert genesis.code(WORLD.wallets[0]) == genesis.code(WORLD.wallets[SIGNERS]) == ""


def test_a_forwarding_wallet_shows_neither_in_its_balance_nor_in_its_nonce(economy: Chain) -> None:
    """Bisecting on both would miss the payment: such a wallet has code."""
    accounts, missed = accounts_of(economy), 0
    for height, transaction, _ in transactions(economy, economy.head):
        wallet = transaction["to"]
        if wallet in WORLD.wallets[-CONTRACTS:] and number(transaction["value"]):
            before, after = (accounts.at(economy, at) for at in (height - 1, height))
            assert before.nonce(wallet) == after.nonce(wallet) == 1
            missed += before.balance(wallet) == after.balance(wallet)
    assert missed
