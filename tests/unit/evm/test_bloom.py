"""A bloom contains every item it was built from, and is the union of its parts."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.evm.codec.bloom import bloom_of_logs, log_bits
from tests.unit.evm import reference


@dataclass
class Log:
    address: str
    topics: list[str]
    data: str = "0x"


addresses = st.binary(min_size=20, max_size=20).map(lambda it: f"0x{it.hex()}")
topics = st.binary(min_size=32, max_size=32).map(lambda it: f"0x{it.hex()}")
logs = st.builds(Log, addresses, st.lists(topics, max_size=4))


def test_the_bloom_of_nothing_is_empty() -> None:
    assert bloom_of_logs([]) == f"0x{bytes(256).hex()}"


@given(st.lists(logs, max_size=5), st.lists(logs, max_size=5))
def test_the_bloom_of_all_is_the_union(some: list[Log], others: list[Log]) -> None:
    assert log_bits(some + others) == log_bits(some) | log_bits(others)


@given(st.lists(logs, max_size=5))
def test_the_bloom_of_logs_is_that_of_their_addresses_and_topics(members: list[Log]) -> None:
    written = [text for log in members for text in (log.address, *log.topics)]
    expected = reference.bloom(bytes.fromhex(text[2:]) for text in written)
    assert log_bits(members) == int.from_bytes(expected, "big")
    assert bloom_of_logs(members) == f"0x{expected.hex()}"
