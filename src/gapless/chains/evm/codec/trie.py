"""The root of a list: the Merkle-Patricia trie whose keys are the RLP of 0, 1, 2, ...

A header commits to the block's transactions, receipts and withdrawals by such roots. The shape of
the trie depends only on the number of values, so it is computed once per number and cached; a root
is then computed in one pass over the values, with one hash per node.

No key is a prefix of another, because RLP is prefix-free. So a branch never has a value itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.codec.rlp import (
    EMPTY_STRING,
    concatenated,
    encode,
    integer,
    list_head,
    string,
    string_head,
)

EMPTY_ROOT = keccak(EMPTY_STRING)

_HASH_SIZE = 32
_HASH_HEAD = b"\xa0"
_CACHED = 512


class _Leaf(NamedTuple):
    path: bytes  # as encoded in the node
    position: int


class _Extension(NamedTuple):
    path: bytes
    child: _Shape


class _Branch(NamedTuple):
    children: tuple[_Shape | None, ...]


_Shape: TypeAlias = "_Leaf | _Extension | _Branch"


def ordered_root(values: Sequence[bytes]) -> bytes:
    """Return the root of the trie that maps the RLP of each index to the value at that index."""
    if not values:
        return EMPTY_ROOT
    return keccak(_node(_shape(len(values)), values))


def _node(shape: _Shape, values: Sequence[bytes]) -> bytes:
    if isinstance(shape, _Leaf):
        return _leaf(shape.path, values[shape.position])
    if isinstance(shape, _Extension):
        return concatenated((shape.path, _reference(_node(shape.child, values))))
    references = []
    for child in shape.children:
        if child is None:
            references.append(EMPTY_STRING)
        elif isinstance(child, _Leaf):
            references.append(_reference(_leaf(child.path, values[child.position])))
        else:
            references.append(_reference(_node(child, values)))
    references.append(EMPTY_STRING)
    return concatenated(references)


def _leaf(path: bytes, value: bytes) -> bytes:
    size = len(value)
    if size == 1:
        return concatenated((path, string(value)))
    head = string_head(size)
    return b"".join((list_head(len(path) + len(head) + size), path, head, value))


def _reference(node: bytes) -> bytes:
    """Return how a parent refers to a node: by its hash, or by the node itself if it is shorter."""
    return node if len(node) < _HASH_SIZE else _HASH_HEAD + keccak(node)


@lru_cache(_CACHED)
def _shape(count: int) -> _Shape:
    keys = sorted((encode(integer(index)).hex(), index) for index in range(count))
    return _shape_of(keys, 0)


def _shape_of(keys: Sequence[tuple[str, int]], depth: int) -> _Shape:
    """Return the node above sorted keys that share their first `depth` nibbles."""
    first, last = keys[0][0], keys[-1][0]
    if len(keys) == 1:
        return _Leaf(_path(first[depth:], leaf=True), keys[0][1])
    fork = next(at for at in range(depth, len(first)) if first[at] != last[at])
    branch = _Branch(tuple(_child(keys, fork, nibble) for nibble in "0123456789abcdef"))
    return branch if fork == depth else _Extension(_path(first[depth:fork], leaf=False), branch)


def _child(keys: Sequence[tuple[str, int]], fork: int, nibble: str) -> _Shape | None:
    below = [key for key in keys if key[0][fork] == nibble]
    return _shape_of(below, fork + 1) if below else None


def _path(nibbles: str, *, leaf: bool) -> bytes:
    """Encode nibbles in hex-prefix form, with one flag for leaves and one for an odd number."""
    odd = len(nibbles) % 2
    flags = f"{2 * leaf + odd:x}" + ("" if odd else "0")
    return string(bytes.fromhex(flags + nibbles))
