"""The hash is Ethereum's Keccak-256, not the standardised SHA3-256."""

from __future__ import annotations

import pytest

from gapless.chains.evm.codec.keccak import keccak


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
        (b"abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
        (
            b"Transfer(address,address,uint256)",
            "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
        ),
    ],
)
def test_known_digests(data: bytes, digest: str) -> None:
    assert keccak(data).hex() == digest
