"""The 2,048-bit bloom filter of the addresses and topics in a block's logs.

Each item sets three bits, taken from its hash. A bloom proves little, because dropping a block's
last log often leaves it unchanged. But a log whose bits are not set is certainly wrong.

The bits of an item are cached, because a few tokens and their `Transfer` topic account for most of
a block's logs.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Iterable
from functools import lru_cache

from gapless.chains.evm.codec.fields import LogFields
from gapless.chains.evm.codec.keccak import keccak

BLOOM_SIZE = 256

_CACHED = 1 << 14  # about 8 MB
_BIT = 2047


def bloom_of_logs(logs: Iterable[LogFields]) -> str:
    """Return the bloom of some logs as the hex text that a node returns."""
    return f"0x{log_bits(logs):0{2 * BLOOM_SIZE}x}"


def log_bits(logs: Iterable[LogFields]) -> int:
    """Return the bloom of some logs as a number, which is cheap to combine and compare."""
    bits = 0
    for log in logs:
        bits |= _bits_of(log.address)
        for topic in log.topics:
            bits |= _bits_of(topic)
    return bits


@lru_cache(_CACHED)
def _bits_of(item: str) -> int:
    head = int.from_bytes(keccak(unhexlify(item[2:]))[:6], "big")
    return 1 << (head >> 32 & _BIT) | 1 << (head >> 16 & _BIT) | 1 << (head & _BIT)
