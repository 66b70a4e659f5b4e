"""Keccak-256 as Ethereum uses it: the padding from before SHA-3 was standardised.

Everything a block proves comes down to this function, and it is called for every node of every
trie, so it is one C call (0.9 µs for a short input) and nothing around it.
"""

from __future__ import annotations

from sha3 import keccak_256  # type: ignore[import-untyped]


def keccak(data: bytes) -> bytes:
    """The 32-byte Keccak-256 digest of `data`."""
    digest: bytes = keccak_256(data).digest()
    return digest
