"""The root of a list is the root of the trie whose keys are its indices, whatever the values."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.chains.evm.codec.rlp import encode, integer
from gapless.chains.evm.codec.trie import EMPTY_ROOT, ordered_root
from tests.unit.evm import reference

values = st.one_of(st.binary(min_size=1, max_size=40), st.integers(1, 700).map(bytes))
lists = st.lists(values, max_size=40)
# Where the shape of the trie changes: one more nibble or byte in the key.
counts = st.sampled_from([1, 2, 16, 17, 18, 127, 128, 129, 130, 255, 256, 257, 258, 272, 273, 530])


def indexed(members: list[bytes]) -> dict[bytes, bytes]:
    return {encode(integer(index)): value for index, value in enumerate(members)}


@pytest.mark.parametrize(
    ("pairs", "root"),
    [
        ({}, "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"),
        (
            {b"do": b"verb", b"horse": b"stallion", b"doge": b"coin", b"dog": b"puppy"},
            "5991bb8c6514148a29db676a14ac506cd2cd5775ace63c30a4fe457715e9ac84",
        ),
        (
            {b"foo": b"bar", b"food": b"bass"},
            "17beaa1648bafa633cda809c90c04af50fc8aed3cb40d16efbddee6fdf63c4c3",
        ),
    ],
)
def test_the_reference_computes_the_published_roots(pairs: dict[bytes, bytes], root: str) -> None:
    assert reference.trie_root(pairs).hex() == root


def test_the_root_of_nothing_is_known() -> None:
    assert ordered_root([]) == EMPTY_ROOT == reference.trie_root({})


@given(lists)
@example([b"\x00"])
@example([b"\x7f"] * 20)
def test_the_root_equals_the_reference(members: list[bytes]) -> None:
    assert ordered_root(members) == reference.trie_root(indexed(members))


@given(counts, st.integers(1, 45))
def test_every_shape_of_the_trie_has_the_right_root(count: int, size: int) -> None:
    members = [index.to_bytes(2, "big") * size for index in range(count)]
    assert ordered_root(members) == reference.trie_root(indexed(members))


def test_a_list_longer_than_most_blocks_has_the_right_root() -> None:
    members = [encode(integer(index)) for index in range(1, 5_000)]
    assert ordered_root(members) == reference.trie_root(indexed(members))


@given(lists.filter(len), st.data())
def test_every_change_changes_the_root(members: list[bytes], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(members) - 1))
    changed = [*members[:at], members[at] + b"\x01", *members[at + 1 :]]
    roots = {ordered_root(each) for each in (members, changed, members[:-1], [*members, b"\x01"])}
    assert len(roots) == 4
