"""Slow, obvious versions of what the core does fast, to test the core against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gapless.chains.evm.codec.keccak import keccak


def rlp(item: object) -> bytes:
    if isinstance(item, bytes):
        if len(item) == 1 and item[0] < 0x80:
            return item
        return _with_length(item, 0x80)
    assert isinstance(item, list | tuple)
    return _with_length(b"".join(rlp(each) for each in item), 0xC0)


def unrlp(data: bytes) -> object:
    item, rest = _take(data)
    assert rest == b""
    return item


def trie_root(pairs: Mapping[bytes, bytes]) -> bytes:
    """The root of a Merkle-Patricia trie. One key may be a prefix of another."""
    if not pairs:
        return keccak(rlp(b""))
    return keccak(rlp(_node([(key.hex(), value) for key, value in pairs.items()])))


def bloom(items: Iterable[bytes]) -> bytes:
    filter_ = bytearray(256)
    for item in items:
        digest = keccak(item)
        for at in (0, 2, 4):
            bit = (digest[at] << 8 | digest[at + 1]) % 2048
            filter_[255 - bit // 8] |= 1 << bit % 8
    return bytes(filter_)


def _with_length(payload: bytes, kind: int) -> bytes:
    if len(payload) <= 55:
        return bytes([kind + len(payload)]) + payload
    length = len(payload).to_bytes(8, "big").lstrip(b"\0")
    return bytes([kind + 55 + len(length)]) + length + payload


def _take(data: bytes) -> tuple[object, bytes]:
    head = data[0]
    if head < 0x80:
        return data[:1], data[1:]
    kind = 0x80 if head < 0xC0 else 0xC0
    start, size = 1, head - kind
    if size > 55:
        start += size - 55
        size = int.from_bytes(data[1:start], "big")
        assert size > 55
    payload, rest = data[start : start + size], data[start + size :]
    assert len(payload) == size
    if kind == 0x80:
        assert not (size == 1 and payload < b"\x80")
        return payload, rest
    members = []
    while payload:
        member, payload = _take(payload)
        members.append(member)
    return members, rest


def _node(pairs: list[tuple[str, bytes]]) -> object:
    """A node above hex keys, as a tree of byte strings."""
    if len(pairs) == 1:
        key, value = pairs[0]
        return [_hex_prefix(key, leaf=True), value]
    shared = _common([key for key, _ in pairs])
    if shared:
        rest = [(key[len(shared) :], value) for key, value in pairs]
        return [_hex_prefix(shared, leaf=False), _link(_node(rest))]
    branch: list[object] = []
    for nibble in "0123456789abcdef":
        below = [(key[1:], value) for key, value in pairs if key[:1] == nibble]
        branch.append(_link(_node(below)) if below else b"")
    branch.append(next((value for key, value in pairs if key == ""), b""))
    return branch


def _link(node: object) -> object:
    encoded = rlp(node)
    return node if len(encoded) < 32 else keccak(encoded)


def _common(keys: list[str]) -> str:
    first, last = min(keys), max(keys)
    size = 0
    while size < min(len(first), len(last)) and first[size] == last[size]:
        size += 1
    return first[:size]


def _hex_prefix(nibbles: str, *, leaf: bool) -> bytes:
    flag = 2 if leaf else 0
    head = f"{flag + 1:x}" if len(nibbles) % 2 else f"{flag:x}0"
    return bytes.fromhex(head + nibbles)
