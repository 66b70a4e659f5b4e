"""Which logs are transfers, by the rules of ethereum-etl."""

from __future__ import annotations

import json

import pytest

from gapless.chains.evm.transfers import TRANSFER, decode, transfers
from tests.data.recorded import DATA
from tests.unit.export.stage import as_stored

VECTORS = DATA / "tokens" / "token_transfer_vectors.json"
FROM, TO = (name.rjust(32, b"\0") for name in (b"f" * 20, b"t" * 20))
PRE_STANDARD = "pre-standard ERC-721: Transfer with NO indexed args"
VALUE = (7).to_bytes(32, "big")


@pytest.mark.parametrize("indexed", range(4))
def test_any_words_may_be_indexed(indexed: int) -> None:
    words = [FROM, TO, VALUE]
    topics = [TRANSFER, *words[:indexed], *[None] * (3 - indexed)]
    assert decode(topics, b"".join(words[indexed:])) == (b"f" * 20, b"t" * 20, VALUE)


@pytest.mark.parametrize(
    ("topics", "data"),
    [
        ([TRANSFER, FROM, TO, VALUE], VALUE),
        ([TRANSFER, FROM, TO, None], b""),
        ([TRANSFER, FROM, TO, None], VALUE + b"\1"),
        ([TRANSFER, None, None, None], b""),
    ],
)
def test_logs_with_other_numbers_of_words_are_not_transfers(
    topics: list[bytes | None], data: bytes
) -> None:
    assert decode(topics, data) is None


def test_a_short_word_is_a_small_number() -> None:
    assert decode([TRANSFER, FROM, TO, None], b"\1\0") == (
        b"f" * 20,
        b"t" * 20,
        (256).to_bytes(32, "big"),
    )


@pytest.mark.skipif(not VECTORS.exists(), reason="there are no recorded transfers")
def test_known_logs() -> None:
    """ethereum-etl finds fewer kinds than others do, but whichever words are indexed."""
    found = {}
    for vector in json.loads(VECTORS.read_text())["vectors"]:
        topics = (topic.removeprefix("0x").zfill(64) for topic in vector["log"]["topics"])
        logs = as_stored("logs", [{**vector["log"], "topics": ",".join(topics)}])
        found[vector["name"].partition(" (")[0]] = transfers(logs).to_pylist()
    one, other = (found.pop(name)[0] for name in ("ERC-20 standard", PRE_STANDARD))
    assert int.from_bytes(one["value"], "big") == 17 * 10**18
    assert one["from_address"].hex() == "556813d9cc20acfe8388af029a679d34a63388db"
    assert int.from_bytes(other["value"], "big") == 14939
    assert found
    assert not any(found.values())
