"""Answers that are wrong in some way, or only unusual, and the comparison of two readers of them.

`mutated` and `flipped` are strategies for answers with any changes; `meanings.py` has those that
change nothing, and those that change a value. `compare` asserts that two readers agree about
answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st
from msgspec import Raw

from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.family import Reading, Wanted
from gapless.core.errors import BadAnswer, BadBlock
from tests.unit.evm.json_tree import (
    Container,
    Node,
    Object,
    at,
    containers,
    escaped,
    is_hex,
    put,
    quoted,
    rendered,
    size,
    taken_apart,
)

Read: TypeAlias = Callable[..., Reading]
"""As `Family.read`."""
Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

RESERVED = b'"(extra)"'
_JUNK = (
    b"null",
    b"true",
    b"false",
    b"0",
    b"-1",
    b"1.5",
    b"1e400",
    b"9" * 5000,
    b'""',
    b"[]",
    b"{}",
)
_KEYS = (b'"unknown"', b'"blockTimestamp"', b'"\\u0066rom"', '"é"'.encode(), b'"a\\n\\"b"', b'""')
_BAD_BYTES = (b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\x00", b"\xef\xbb\xbf", b"\\ud800", b"\\q")
_BYTES = (*b'"\\{}[],:0123456789abcdefxABCXeE+-.ntu ', 0, 9, 10, 127, 128, 195, 237, 255)
_DEPTHS = (5, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 200, 3000)


@st.composite
def mutated(draw: Draw, raws: Sequence[EvmRawBlock]) -> list[EvmRawBlock]:
    """Change one to three things in the answers for one of the blocks."""
    which = draw(st.integers(0, len(raws) - 1))
    parts = trees(raws[which])
    for _ in range(draw(st.integers(1, 3))):
        root = draw(st.sampled_from(parts))
        change = draw(st.sampled_from(_CHANGES))
        change(draw, draw(st.sampled_from([*containers(root)])))
    texts = [rendered(part) for part in parts]
    if draw(st.integers(0, 9)) == 0:
        damaged = draw(st.integers(0, len(texts) - 1))
        texts[damaged] = draw(st.sampled_from(_DAMAGES))(draw, texts[damaged])
    if len(texts) > 1 and draw(st.integers(0, 19)) == 0:
        other = raws[draw(st.integers(0, len(raws) - 1))].receipts
        texts[1] = bytes(other or b"null")
    return with_texts(raws, which, texts)


@st.composite
def flipped(draw: Draw, raws: Sequence[EvmRawBlock]) -> list[EvmRawBlock]:
    """Change some bytes in the answers for one of the blocks, whatever they are part of."""
    which = draw(st.integers(0, len(raws) - 1))
    texts = [bytearray(it) for it in (raws[which].block, raws[which].receipts) if it is not None]
    for _ in range(draw(st.integers(1, 3))):
        text = draw(st.sampled_from(texts))
        text[draw(st.integers(0, len(text) - 1))] = draw(st.sampled_from(_BYTES))
    return with_texts(raws, which, [bytes(text) for text in texts])


def trees(raw: EvmRawBlock) -> list[Node]:
    """Return the block and, if there are any, the receipts."""
    return [taken_apart(bytes(it)) for it in (raw.block, raw.receipts) if it is not None]


def with_texts(
    raws: Sequence[EvmRawBlock], which: int, texts: Sequence[bytes]
) -> list[EvmRawBlock]:
    """Replace the answers for one of the blocks."""
    block, *receipts = map(Raw, texts)
    changed = replace(raws[which], block=block, receipts=receipts[0] if receipts else None)
    return [*raws[:which], changed, *raws[which + 1 :]]


def compare(
    read_a: Read,
    read_b: Read,
    raws: Sequence[EvmRawBlock],
    wanted: Wanted,
    samples: Collection[int] = (),
) -> tuple[Reading, Reading]:
    """Assert that two readers give the same tables, proofs and refusals, fast and in full.

    Returns what the first reader gave: fast (but for the samples), and in full.
    """
    fast, full = (
        _compared(
            read_a(raws, wanted, samples, whole=whole), read_b(raws, wanted, samples, whole=whole)
        )
        for whole in (False, True)
    )
    return fast, full


def _compared(one: Reading, other: Reading) -> Reading:
    assert refusals(one) == refusals(other), (one.refused, other.refused)
    assert dict(one.blocks) == dict(other.blocks)
    assert one.has_extra == other.has_extra
    assert list(one.tables) == list(other.tables)
    for name, table in one.tables.items():
        assert table.schema.equals(other.tables[name].schema), name
        assert table.equals(other.tables[name]), [*_differences(name, table, other.tables[name])]
    return one


def _differences(name: str, one: pa.Table, other: pa.Table) -> Iterator[str]:
    for column in one.column_names:
        values = one[column].to_pylist(), other[column].to_pylist()
        if values[0] != values[1]:
            yield f"{name}.{column}: {values[0]} and {values[1]}"


def refusals(reading: Reading) -> dict[int, tuple[str, str | None]]:
    """Return what is compared of the refused blocks: the code, and the check that failed."""
    return {height: _kind(error) for height, error in reading.refused.items()}


def _kind(error: BadAnswer) -> tuple[str, str | None]:
    return error.code, str(error.check) if isinstance(error, BadBlock) else None


def _place(draw: Draw, within: Container) -> int | None:
    return draw(st.integers(0, size(within) - 1)) if size(within) else None


def _reorder(draw: Draw, within: Container) -> None:
    if isinstance(within, Object):
        within.members[:] = draw(st.permutations(within.members))


def _repeat(draw: Draw, within: Container) -> None:
    """Repeat a key or an item: with the same value, or another, before or behind."""
    if (place := _place(draw, within)) is None:
        return
    other = draw(st.sampled_from([at(within, place), *_JUNK]))
    if isinstance(within, Object):
        key = within.members[place][0]
        if draw(st.booleans()):
            key = escaped(key)
        within.members.insert(draw(st.integers(0, len(within.members))), (key, other))
    else:
        within.insert(draw(st.integers(0, len(within))), other)


def _add(draw: Draw, within: Container) -> None:
    if isinstance(within, Object):
        value = draw(st.sampled_from([*_JUNK, b'"0x1"', b'[1,  {"b":2.50,"a":1}]', b'"\\u00e9"']))
        key = draw(st.sampled_from([*_KEYS, RESERVED]))
        within.members.insert(draw(st.integers(0, len(within.members))), (key, value))


def _drop(draw: Draw, within: Container) -> None:
    if (place := _place(draw, within)) is not None:
        del (within.members if isinstance(within, Object) else within)[place]


def _swap(draw: Draw, within: Container) -> None:
    if isinstance(within, list) and len(within) > 1:
        one, other = draw(st.permutations(range(len(within))))[:2]
        within[one], within[other] = within[other], within[one]


def _replace(draw: Draw, within: Container) -> None:
    if (place := _place(draw, within)) is not None:
        put(within, place, draw(st.sampled_from(_JUNK)))


def _nest(draw: Draw, within: Container) -> None:
    """Put a value into nested lists or objects, near the limit of depth or far above."""
    depth = draw(st.sampled_from(_DEPTHS))
    before, behind = draw(st.sampled_from([(b"[", b"]"), (b'{"a":', b"}"), (b'["]",', b"]")]))
    nested = before * depth + b"0" + behind * depth
    if isinstance(within, Object):
        within.members.append((draw(st.sampled_from(_KEYS)), nested))
    elif (place := _place(draw, within)) is not None:
        put(within, place, nested)


def _respell(draw: Draw, within: Container) -> None:
    """Change the notation of a text, or its digits."""
    if (place := _place(draw, within)) is None:
        return
    leaf = at(within, place)
    if isinstance(leaf, bytes) and is_hex(leaf):
        text = json.loads(leaf)
        spelled = draw(st.sampled_from(_SPELLINGS))(text)
        escape = draw(st.integers(0, 4)) == 0
        value = quoted(spelled)
        put(within, place, escaped(value) if escape else value)


def _compensate(draw: Draw, within: Container) -> None:
    """Move digits from the end of a text to the same text of the next item."""
    if not isinstance(within, list) or len(within) < 2:
        return
    place = draw(st.integers(0, len(within) - 2))
    one, other = within[place : place + 2]
    if isinstance(one, bytes) and isinstance(other, bytes):
        cut = draw(st.integers(1, max(1, len(one) - 1)))
        within[place : place + 2] = [one[:cut] + b'"', b'"' + one[cut:-1] + other[1:]]
    elif isinstance(one, Object) and isinstance(other, Object):
        common = [*_common(one, other)]
        if common:
            place, key, first, second = draw(st.sampled_from(common))
            cut = draw(st.integers(1, max(1, len(first) - 1)))
            one.members[place] = key, first[:cut] + b'"'
            other.members[place] = key, b'"' + first[cut:-1] + second[1:]


def _common(one: Object, other: Object) -> Iterator[tuple[int, bytes, bytes, bytes]]:
    """Yield the place, key and both values of texts that two objects have at the same place."""
    pairs = enumerate(zip(one.members, other.members, strict=False))
    for place, ((key, first), (again, second)) in pairs:
        if key != again or not isinstance(first, bytes) or not isinstance(second, bytes):
            continue
        if is_hex(first) and is_hex(second):
            yield place, key, first, second


_SPELLINGS: tuple[Callable[[str], str], ...] = (
    lambda it: "0x" + it[2:].upper(),
    lambda it: "0X" + it[2:],
    lambda it: " " + it,
    lambda it: it + " ",
    lambda it: it + "\n",
    lambda it: "0x0" + it[2:],
    lambda it: "0x00" + it[2:],
    lambda it: f"0x{it[2:]:0>64}",
    lambda it: it[:-1],
    lambda it: it[:2],
    lambda it: it[2:],
    lambda it: "zz" + it[2:],
    lambda it: it + "0",
    lambda it: it + "00",
    lambda it: it[:-1] + format((int(it[-1:], 16) + 1) % 16, "x") if len(it) > 2 else it + "01",
    lambda it: "+" + it,
    lambda it: "0x-" + it[2:],
    lambda it: "0x_" + it[2:],
    lambda it: it[:3] + "_" + it[3:],
    lambda it: it[:-1] + "\u0661",
    lambda it: it[:-1] + "\uff11",
    lambda it: str(int(it, 16)) if len(it) > 2 else "0",
    lambda it: it + "f" * 16,
    lambda it: it + "f" * 64,
    lambda it: it[:18] + "x" + it[18:],
)
_CHANGES: tuple[Callable[[Draw, Any], None], ...] = (
    *(_reorder, _repeat, _add, _drop, _swap, _replace, _nest, _compensate),
    *(_respell, _respell, _respell),
)


def _truncate(draw: Draw, text: bytes) -> bytes:
    return text[: draw(st.integers(0, len(text)))]


def _insert(draw: Draw, text: bytes) -> bytes:
    place = draw(st.integers(0, len(text)))
    junk: bytes = draw(st.sampled_from(_BAD_BYTES) | st.binary(min_size=1, max_size=2))
    return text[:place] + junk + text[place:]


def _space(draw: Draw, text: bytes) -> bytes:
    spaced = (text.replace(b",", b",\r\n\t "), b" " + text + b"\n", text + b"x")
    found: bytes = draw(st.sampled_from(spaced))
    return found


_DAMAGES: tuple[Callable[[Draw, bytes], bytes], ...] = (_truncate, _insert, _insert, _space)
