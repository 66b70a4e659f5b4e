"""Answers that `docs/reference/answers.md` refuses or accepts, one rule at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import Raw

from gapless.chains import Level
from gapless.chains.evm.family import EVM
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.evm.reading import read
from gapless.chains.family import Reading, Wanted
from gapless.devnode import Parameters, simulated
from tests.evm import DATASETS, evm_network
from tests.unit.evm.json_tree import Node, Object, quoted, rendered, taken_apart

HEIGHT = 3
PARAMETERS = Parameters(blocks=8, txs=3, fewest=3, seed=7)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    chain = simulated(PARAMETERS, tmp_path_factory.mktemp("cache"))
    return bytes(chain.block(HEIGHT)), bytes(chain.receipts(HEIGHT))


def read_with(answers: tuple[bytes, bytes], change: Callable[[Object], None]) -> Reading:
    """Read a block without any checks, after a change to the block or its first transaction."""
    block = taken_apart(answers[0])
    assert isinstance(block, Object)
    change(block)
    return read_text(rendered(block), answers[1])


def read_text(block: bytes, receipts: bytes) -> Reading:
    chain_id = PARAMETERS.chain_id
    wanted = Wanted(
        evm_network("custom"), chain_id, EVM.level(Level.OFF, DATASETS), frozenset(DATASETS)
    )
    raw = EvmRawBlock(HEIGHT, Raw(block), Raw(receipts), None, "endpoint")
    return read([raw], wanted, (), whole=False)


def transaction(block: Object) -> Object:
    listed = block.get("transactions")
    assert isinstance(listed, list)
    first = listed[0]
    assert isinstance(first, Object)
    return first


def put(within: Object, key: str, node: Node) -> None:
    within.members[:] = [it for it in within.members if it[0] != quoted(key)]
    within.members.append((quoted(key), node))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gas", b'"0x"'),
        ("gas", b'" 0x1"'),
        ("gas", b'"0X1"'),
        ("gas", b'"0x+1"'),
        ("gas", b'"0x1_0"'),
        ("gas", b'"0x00000000000000001"'),
        ("gas", b"1"),
        ("gas", b"null"),
        ("value", b'"0x1' + b"0" * 64 + b'"'),
        ("value", b'""'),
        ("type", b'"0x100"'),
        ("input", b'"0x0"'),
        ("input", b'"00"'),
        ("hash", b'"0x00"'),
        ("to", b'"0x' + b"0" * 39 + b'"'),
        ("chainId", b'"1"'),
        ("isSystemTx", b'"true"'),
        ("accessList", b'[{"address":"0x00","storageKeys":[]}]'),
        ("accessList", b"{}"),
        ("(extra)", b"{}"),
        ("unknown", b'"\xff"'),
        ("unknown", b'"\xed\xa0\x80"'),
        ("unknown", b'"\\ud800"'),
        ("unknown", b"01"),
    ],
)
def test_refused(answers: tuple[bytes, bytes], key: str, value: bytes) -> None:
    found = read_with(answers, lambda block: put(transaction(block), key, value))
    assert {at: error.code for at, error in found.refused.items()} == {HEIGHT: "bad_answer"}
    assert not found.blocks


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gas", b'"0x0000000000000001"'),
        ("value", b'"0x' + b"F" * 64 + b'"'),
        ("input", b'"0x"'),
        ("to", b"null"),
        ("unknown", b"9" * 5000),
        ("unknown", '"\u00e9"'.encode()),
    ],
)
def test_accepted(answers: tuple[bytes, bytes], key: str, value: bytes) -> None:
    found = read_with(answers, lambda block: put(transaction(block), key, value))
    assert not found.refused


@pytest.mark.parametrize("nested", [(b"[", b"]"), (b'{"a":', b"}"), (b'["]",', b"]")])
@pytest.mark.parametrize(("depth", "refused"), [(61, False), (62, True), (100_000, True)])
def test_depth(
    answers: tuple[bytes, bytes], nested: tuple[bytes, bytes], depth: int, refused: bool
) -> None:
    """A transaction is inside the block's list, so 61 more lists or objects can be open."""
    value = nested[0] * depth + b"0" + nested[1] * depth
    found = read_with(answers, lambda block: put(transaction(block), "unknown", value))
    assert bool(found.refused) is refused


def test_depth_does_not_follow_the_stack(answers: tuple[bytes, bytes]) -> None:
    value = b"[" * 61 + b"]" * 61

    def change(block: Object) -> None:
        put(transaction(block), "unknown", value)

    def deeper(levels: int) -> Reading:
        return deeper(levels - 1) if levels else read_with(answers, change)

    assert not deeper(300).refused


def test_two_values_do_not_compensate_each_other(answers: tuple[bytes, bytes]) -> None:
    def change(block: Object) -> None:
        listed = block.get("transactions")
        assert isinstance(listed, list)
        put(listed[0], "from", quoted("0x" + "1" * 39))
        put(listed[1], "from", quoted("10x" + "1" * 40))

    refusal = read_with(answers, change).refused[HEIGHT]
    assert refusal.code == "bad_answer"
    assert "transactions.from_address" in str(refusal) or "`from`" in str(refusal)


def test_the_last_of_equal_keys_counts(answers: tuple[bytes, bytes]) -> None:
    def change(block: Object) -> None:
        transaction(block).members.insert(0, (b'"g\\u0061s"', b'"zz"'))

    expected = read_text(*answers)
    found = read_with(answers, change)
    assert found.tables["transactions"].equals(expected.tables["transactions"])
    wrong = read_with(answers, lambda block: transaction(block).members.insert(0, (b'"gas"', b"5")))
    assert wrong.refused[HEIGHT].code == "bad_answer"


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text + b"x",
        lambda text: text[:-1],
        lambda _: b"",
        lambda _: b"null",
        lambda _: b"[" * 100_000,
    ],
)
def test_not_one_value(answers: tuple[bytes, bytes], damage: Callable[[bytes], bytes]) -> None:
    for texts in ((damage(answers[0]), answers[1]), (answers[0], damage(answers[1]))):
        assert read_text(*texts).refused[HEIGHT].code == "bad_answer"


def test_a_block_of_another_height(answers: tuple[bytes, bytes]) -> None:
    found = read_with(answers, lambda block: put(block, "number", b'"0x4"'))
    assert found.refused[HEIGHT].code == "bad_answer"
