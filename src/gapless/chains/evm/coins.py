"""The coins of the networks: what they are called, and which contract turns them into tokens.

A wrapping contract is listed if it announces `Deposit(dst, wad)` and `Withdrawal(src, wad)` as
WETH9 does, with both meaning what they mean there: `dst` paid the coins, and `src` received them.
Arbitrum's own contract announces neither, so that its tokens are seen as created and destroyed.
"""

from __future__ import annotations

from collections.abc import Mapping

ETHER = "ETH"
DECIMALS = 18
"""Of every coin: nodes give all amounts in units of 10^-18."""

SYMBOLS: Mapping[str, str] = {
    "avalanche": "AVAX",
    "avalanche-fuji": "AVAX",
    "bsc": "BNB",
    "celo": "CELO",
    "cronos": "CRO",
    "gnosis": "xDAI",
    "gnosis-chiado": "xDAI",
    "mantle": "MNT",
    "polygon": "POL",
    "polygon-amoy": "POL",
    "stable": "USDT0",
    "stable-testnet": "USDT0",
    "tempo": "USD",
    "tempo-moderato": "USD",
}
"""By network, where it is not ether."""

_ROLLUP = "4200000000000000000000000000000000000006"

WRAPPED: Mapping[str, bytes] = {
    name: bytes.fromhex(contract)
    for name, contract in {
        "avalanche": "b31f66aa3c1e785363f0875a1b74e27b85fd66c7",
        "avalanche-fuji": "d00ae08403b9bbb9124bb305c09058e32c39a48c",
        "base": _ROLLUP,
        "base-goerli": _ROLLUP,
        "base-sepolia": _ROLLUP,
        "bsc": "bb4cdb9cbd36b01bd1cbaebf2de08d9173bc095c",
        "cronos": "5c7f8a570d578ed84e63fdfa7b1ee72deae1ae23",
        "ethereum": "c02aaa39b223fe8d0a0e5c4f27ead9083c756cc2",
        "gnosis": "e91d153e0b41518a2ce8dd3d7944fa863463a97d",
        "goerli": "b4fbf271143f4fbf7b91a5ded31805e42b2208d6",
        "holesky": "94373a4919b3240d86ea41593d5eba789fef3848",
        "linea": "e5d7c2a44ffddf6b295a15c148167daaaf5cf34f",
        "mantle": "78c1b0c915c4faa5fffa6cabf0219da63d7f4cb8",
        "optimism": _ROLLUP,
        "optimism-sepolia": _ROLLUP,
        "polygon": "0d500b1d8e8ef31e21c99d1db9a6444d3adf1270",
        "scroll": "5300000000000000000000000000000000000004",
        "sepolia": "fff9976782d46cc05630d1f6ebab18b2324d6b14",
        "unichain": _ROLLUP,
    }.items()
}
"""By network, the contract that most people wrap its coin with."""
