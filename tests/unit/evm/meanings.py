"""Answers that are written differently and mean the same, and answers with one other value.

What a key means depends on the object that it is in, so objects are found together with the struct
that declares their keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st
from msgspec.structs import fields

from gapless.chains.evm.decode.form import TEXT, U64, ValueForm
from gapless.chains.evm.decode.grammar import FORMS
from gapless.chains.evm.decode.structs import (
    ABSENT,
    EXTRA_KEY,
    Answer,
    Block,
    Log,
    Receipt,
    Transaction,
    Withdrawal,
)
from gapless.chains.evm.raw_block import EvmRawBlock
from tests.unit.evm.json_tree import Node, Object, escaped, is_hex, quoted, rendered
from tests.unit.evm.mutations import Draw, trees, with_texts

Kind: TypeAlias = type[Answer]

_SPACES = (b"", b"", b" ", b"\r\n\t ")
_UNKNOWN = (b'"unknown"', '"\u00e9"'.encode(), b'"a\\n\\"b"', b'""')
_ANYTHING = (b"null", b"1e400", b"9" * 500, b'[1,  {"b":2.50,"a":1}]', b'"\\u00e9"', b'"0x"')


@st.composite
def respelled(draw: Draw, raws: Sequence[EvmRawBlock]) -> list[EvmRawBlock]:
    """Change how the answers for one of the blocks are written, but not what they mean."""
    which = draw(st.integers(0, len(raws) - 1))
    parts = trees(raws[which])
    found = [*_objects(parts)]
    for _ in range(draw(st.integers(1, 4))):
        draw(st.sampled_from(_NOTATIONS))(draw, *draw(st.sampled_from(found)))
    space = draw(st.sampled_from(_SPACES))
    return with_texts(raws, which, [rendered(part, space) for part in parts])


@st.composite
def revalued(draw: Draw, raws: Sequence[EvmRawBlock]) -> tuple[str, list[EvmRawBlock]]:
    """Change one value in the answers for one of the blocks; return its key too."""
    which = draw(st.integers(0, len(raws) - 1))
    parts = trees(raws[which])
    kind, it = draw(st.sampled_from([*_objects(parts)]))
    forms = _forms(kind)
    places = [at for at, (key, node) in enumerate(it.members) if key in forms and is_hex(node)]
    at = draw(st.sampled_from(places))
    key, node = it.members[at]
    assert isinstance(node, bytes)
    it.members[at] = key, quoted(draw(_other_values(json.loads(node))))
    return f"{kind.__name__}.{json.loads(key)}", with_texts(raws, which, list(map(rendered, parts)))


def _other_values(text: str) -> st.SearchStrategy[str]:
    """Return texts of the same form as a text, or of none, that mean something else."""
    if len(text) == len("0x"):
        changed = st.just("0x01")
    else:
        places = st.integers(2, len(text) - 1)
        changed = places.map(lambda at: text[:at] + _next(text[at]) + text[at + 1 :])
    malformed = {"", "0x", " " + text, text + " ", "0x0x" + text[2:], text + "0" * 65, text + "g"}
    return changed | st.sampled_from(sorted(malformed - {text}))


def _next(digit: str) -> str:
    return format((int(digit, 16) + 1) % 16, "x")


def _objects(parts: Sequence[Node]) -> Iterator[tuple[Kind, Object]]:
    block, *receipts = parts
    assert isinstance(block, Object)
    yield Block, block
    yield from ((Transaction, it) for it in _items(block, "transactions"))
    yield from ((Withdrawal, it) for it in _items(block, "withdrawals"))
    for listed in receipts:
        for receipt in listed if isinstance(listed, list) else ():
            yield Receipt, receipt
            yield from ((Log, it) for it in _items(receipt, "logs"))


def _items(within: Object, key: str) -> list[Any]:
    found = within.get(key)
    return found if isinstance(found, list) else []


def _forms(kind: Kind) -> dict[bytes, ValueForm]:
    """Return the forms of the texts in an object, by key."""
    found = {it.name: quoted(it.encode_name) for it in fields(kind)}
    return {found[name]: form for name, form in FORMS[kind].items()}


def _optional(kind: Kind) -> set[bytes]:
    return {
        quoted(it.encode_name)
        for it in fields(kind)
        if (it.default is None or it.default is ABSENT) and it.encode_name != EXTRA_KEY
    }


def _reorder(draw: Draw, kind: Kind, it: Object) -> None:
    start = draw(st.integers(0, len(it.members) - 1))
    if len({json.loads(key) for key, _ in it.members}) == len(it.members):
        it.members[:] = it.members[start:][::-1] + it.members[:start]


def _precede(draw: Draw, kind: Kind, it: Object) -> None:
    """Insert a repeated key before its value, with a text of any form: the last one counts."""
    places = [
        at for at, (key, node) in enumerate(it.members) if key in _forms(kind) and is_hex(node)
    ]
    at = draw(st.sampled_from(places))
    key = it.members[at][0]
    if draw(st.booleans()):
        key = escaped(key)
    it.members.insert(at, (key, draw(st.sampled_from([b'""', b'"0x0"', b'"zz"']))))


def _add_unknown(draw: Draw, kind: Kind, it: Object) -> None:
    member = draw(st.sampled_from(_UNKNOWN)), draw(st.sampled_from(_ANYTHING))
    it.members.insert(draw(st.integers(0, len(it.members))), member)


def _escape(draw: Draw, kind: Kind, it: Object) -> None:
    at = draw(st.integers(0, len(it.members) - 1))
    key, node = it.members[at]
    if isinstance(node, bytes) and node.startswith(b'"') and draw(st.booleans()):
        it.members[at] = key, escaped(node)
    else:
        it.members[at] = escaped(key), node


def _capitalize(draw: Draw, kind: Kind, it: Object) -> None:
    for at, key, text, _ in _texts(kind, it):
        it.members[at] = key, quoted("0x" + text[2:].upper())


def _pad(draw: Draw, kind: Kind, it: Object) -> None:
    """Write quantities with as many leading zeros as their form allows."""
    for at, key, text, form in _texts(kind, it):
        if form.most is not None:
            width = 16 if form.most <= (U64.most or 0) else 64
            it.members[at] = key, quoted(f"0x{text[2:]:0>{width}}")


def _nullify(draw: Draw, kind: Kind, it: Object) -> None:
    """Write null for absent keys, or the other way round."""
    optional = _optional(kind)
    given = {json.loads(key) for key, _ in it.members}
    absent = [key for key in sorted(optional) if json.loads(key) not in given]
    if draw(st.booleans()):
        it.members += [(key, b"null") for key in absent]
    else:
        it.members[:] = [
            (key, node) for key, node in it.members if not (key in optional and node == b"null")
        ]


def _texts(kind: Kind, it: Object) -> Iterator[tuple[int, bytes, str, ValueForm]]:
    forms = _forms(kind)
    for at, (key, node) in enumerate(it.members):
        form = forms.get(key)
        if form is not None and form is not TEXT and isinstance(node, bytes) and is_hex(node):
            yield at, key, json.loads(node), form


_NOTATIONS: tuple[Callable[[Draw, Kind, Object], None], ...] = (
    *(_reorder, _precede, _add_unknown, _escape, _capitalize, _pad, _nullify),
)
