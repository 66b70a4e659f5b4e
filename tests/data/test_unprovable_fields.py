"""At level `roots`, no field of an answer can be changed except those listed here.

Each is a field that no commitment of the chain covers, or one that is ignored because it follows
from its position.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path as File
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless.chains import Level
from gapless.chains.evm.check_names import Check
from gapless.core.errors import BadAnswer
from gapless.core.proof import Proof
from tests.data.examination import check
from tests.data.recorded import real_block, with_blocks

pytestmark = with_blocks

Path = tuple[str | int, ...]

LAWFUL = [
    *(("ethereum", height) for height in (1_000_000, 4_000_000, 14_764_013, 17_053_184)),
    *(("ethereum", height) for height in (20_066_032, 22_119_617)),
    ("ethereum-holesky", 70_951),
    ("optimism", 107_353_722),
    ("base-goerli", 12_399_126),
    ("polygon", 23_887_160),
]
UNPROVABLE = {
    # No commitment covers them.
    ("block", "size"),
    ("block", "totalDifficulty"),
    ("block", "uncles"),  # only whether there are any
    ("transaction", "from"),  # follows from the signature, by key recovery
    ("typed", "gasPrice"),  # for types 2 to 4: the price paid is `effectiveGasPrice`
    *(("deposit", key) for key in ("nonce", "gasPrice", "v", "r", "s")),  # not signed
    ("receipt", "l1Fee"),
    ("receipt", "l1FeeScalar"),
    ("receipt", "l1GasPrice"),
    ("receipt", "l1GasUsed"),
    ("regolith", "depositNonce"),  # covered since Canyon
    # Ignored: they are those of the block, the transaction or the receipt.
    ("receipt", "from"),
    ("receipt", "to"),
    ("log", "blockHash"),
    ("log", "blockNumber"),
    ("log", "blockTimestamp"),
    ("log", "transactionHash"),
    ("log", "transactionIndex"),
    ("transaction", "blockTimestamp"),
}


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from leaves(member, (*path, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from leaves(member, (*path, index))
    elif isinstance(value, str):
        yield path


def field_of(value: dict[str, Any], path: Path) -> tuple[str, str]:
    """The kind of object that a leaf belongs to, and its key there."""
    match path:
        case ("block", "transactions", int(at), str(key), *_):
            type_ = value["block"]["transactions"][at].get("type")
            if type_ == "0x7e" and key in ("from", "nonce", "gasPrice", "v", "r", "s"):
                return "deposit", key
            if type_ in ("0x2", "0x3", "0x4") and key == "gasPrice":
                return "typed", key
            return "transaction", key
        case ("receipts", int(), "logs", int(), str(key), *_):
            return "log", key
        case ("receipts", int(at), str(key), *_):
            is_covered = "depositReceiptVersion" in value["receipts"][at]
            return "regolith" if key == "depositNonce" and not is_covered else "receipt", key
        case (_, str(key), *_):
            return "block", key
    raise AssertionError(path)


def replaced(value: Any, path: Path, leaf: Any) -> Any:
    """The value with another leaf at a path; everything off the path is shared."""
    if not path:
        return leaf
    changed = copy.copy(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], leaf)
    return changed


def at(value: Any, path: Path) -> Any:
    return at(value[path[0]], path[1:]) if path else value


def flipped(text: str) -> str:
    """The text with its last digit changed."""
    if text == "0x":
        return "0x01"
    return text[:-1] + ("1" if text[-1] != "1" else "2")


@cache
def whole(chain: str, height: int) -> dict[str, Any]:
    it = real_block(chain, height)
    return {"block": it.block, "receipts": it.receipts}


@cache
def paths(chain: str, height: int) -> dict[tuple[str, str], list[Path]]:
    """The leaves of a block by field, so that 800 topics do not hide one base fee."""
    by_field: dict[tuple[str, str], list[Path]] = {}
    value = whole(chain, height)
    for path in leaves(value):
        by_field.setdefault(field_of(value, path), []).append(path)
    return by_field


@st.composite
def some_leaf(draw: st.DrawFn) -> tuple[str, int, Path]:
    chain, height = draw(st.sampled_from(LAWFUL))
    by_field = paths(chain, height)
    return chain, height, draw(st.sampled_from(by_field[draw(st.sampled_from(sorted(by_field)))]))


def examine(chain: str, height: int, path: Path, leaf: str) -> Proof:
    """Checks a real block with another leaf at a path."""
    changed = replaced(whole(chain, height), path, leaf)
    return check(real_block(chain, height), Level.ROOTS, changed["block"], changed["receipts"])


@settings(max_examples=400, deadline=None)
@given(some_leaf())
@example(("base-goerli", 12_399_126, ("block", "transactions", 0, "type")))  # to an unknown one
def test_only_unprovable_leaves_can_be_changed(place: tuple[str, int, Path]) -> None:
    chain, height, path = place
    value = whole(chain, height)
    if field_of(value, path) not in UNPROVABLE:
        with pytest.raises(BadAnswer):
            examine(*place, flipped(at(value, path)))


@settings(max_examples=300, deadline=None)
@given(some_leaf(), st.sampled_from(["", "0x", "0", "0xzz", "0x1", "-0x1", "0x 1", "é", "0x0x"]))
def test_a_damaged_leaf_is_refused_or_harmless_and_never_crashes(
    place: tuple[str, int, Path], damage: str
) -> None:
    with suppress(BadAnswer):
        examine(*place, damage)


INTERNAL = ("arbitrum-sepolia", 185_232_422, 0)  # a transaction of type 0x6a
COLUMNS = {"from": "from_address", "to": "to_address", "gasPrice": "gas_price"}
SIGNATURE = {"v", "r", "s"}


def test_the_documentation_lists_what_is_unproven_of_an_internal_transaction() -> None:
    chain, height, position = INTERNAL
    value = whole(chain, height)
    unnoticed = set()
    for path in leaves(value["block"]["transactions"][position]):
        place = ("block", "transactions", position, *path)
        with suppress(BadAnswer):
            if (
                Check.TRANSACTIONS_ROOT
                in examine(chain, height, place, flipped(at(value, place))).proven
            ):
                unnoticed.add(str(path[0]))
    text = (File(__file__).parents[2] / "docs/concepts/proof.md").read_text()
    (field,) = (it.split("|")[1] for it in text.splitlines() if "(type 0x6a)" in it)
    assert unnoticed >= SIGNATURE
    assert "the signature" in field
    named = {*re.findall("`([a-z_]+)`", field)}
    assert named == {COLUMNS.get(it, it) for it in unnoticed - SIGNATURE}
