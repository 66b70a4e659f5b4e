"""Blocks of public networks with well-known hashes: the genesis, and a few later ones.

The genesis distinguishes networks that share a chain id. It proves nothing about later blocks,
since anyone can build on it. A later checkpoint proves every block that links up to it.

Each genesis hash comes from the source code of a client of that network. Each later one was
recomputed from the recorded header.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gapless.core.anchors import Anchor

_CHECKPOINTS = {
    # Ethereum; 15,537,393 is the last block with proof of work.
    1: """
        0:d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3
        8000000:4e454b49dc8a2e2a229e0ce911e9fd4d2aa647de4cf6e0df40cf71bff7283330
        15537393:55b11b918355b1ef9c5db810302ebad0bf2544255b530cdce90674d5887bb286
        20000000:d24fd73f794058a3807db926d8898c6481e902b7edb91ce0d479d6760f276183
        22162263:fbf884a87d9b41c39363242970cea015afbc9b5ba6ab1ed34f407b2621987353
    """,
    # Sepolia, Holesky, Hoodi, Goerli
    11_155_111: "0:25a5cc106eea7138acab33231d7160d69cb777ee0c2c553fcddf5138993e6dd9",
    17_000: "0:b5f7f912443c940f21fd611f12828d75b534364ed9e95ca4e307729a4661bde4",
    560_048: "0:bbe312868b376a3001692a646dd2d7d1e4406380dfd86b98aa8a34d1557c971b",
    5: "0:bf7e331f7f7c1dd2e05159666b3bf8bc7a8a3a9eb1d518969eab529dd9b88c1a",
    # Base, Base Sepolia
    8453: "0:f712aa9241cc24369b143cf6dce85f0902a9731e70d66818a3a5845b296c73dd",
    84_532: "0:0dcc9e089e30b90ddfc55be9a37dd15bc551aeee999d2e2b51414c54eaf934e4",
    # Optimism, Optimism Sepolia, Unichain
    10: """
        0:7ca38a1916c42007829c55e69d3e9a73265554b586a499015373241b8a3fa48b
        107353722:f05ccf1638b3d3cee9361dcb0e6023900b514a21d9a114e023adc61ecf2f7ffa
    """,
    11_155_420: "0:102de6ffb001480cc9b8b548fd05c34cd4f46ae4aa91759393db90ea0409887d",
    130: "0:3425162ddf41a0a1f0106d67b71828c9a9577e6ddeb94e4f33d2cde1fdc3befe",
    # Arbitrum, Arbitrum Sepolia
    42_161: "0:7ee576b35482195fc49205cec9af72ce14f003b9ae69f6ba0faef4514be8b442",
    421_614: """
        0:77194da4010e549a7028a9c3c51c3e277823be6ac7d138d0bb8a70197b5c004c
        185232422:b0ae4f21537e3e5f1f21c9a5fe22da1af68d2860cc737b590a405deed9439cc0
    """,
    # Polygon, Polygon Amoy
    137: """
        0:a9c28ce2141b56c474f1dc504bee9b01eb1bd7d1a507580d5519d4437a97de1b
        50000000:ed6bc55bb3fbf391fb47a96bb0327906a2dab5f50c1330f89684b79a5195efaa
    """,
    80_002: "0:7202b2b53c5a0836e773e319d18922cc756dd67432f9a1f65352b61f4406c697",
    # BNB Smart Chain
    56: "0:0d21840abff46b96c84b2ac9e10e4f5cdaeb5693cb665db62a2f3b02d2d57b5b",
    # Avalanche and Fuji begin with the same block.
    43_114: "0:31ced5b9beb7f8782b014660da0cb18cc409f121f408186886e1ca3e8eeca96b",
    43_113: "0:31ced5b9beb7f8782b014660da0cb18cc409f121f408186886e1ca3e8eeca96b",
    # Gnosis, Chiado
    100: """
        0:4f1dd23188aab3a76b463e4af801b52b1248ef073c648cbdc4c9333d3da79756
        40000000:084b9e88724ef3bdad9147ddebef6816d63c8f65af296ed010d5f77906550a95
    """,
    10_200: "0:ada44fd8d2ecab8b08f256af07ad3e777f17fb434f8f8e678b312f576212ba9a",
}

CHECKPOINTS: Mapping[int, tuple[Anchor, ...]] = MappingProxyType(
    {chain: tuple(map(Anchor.parse, text.split())) for chain, text in _CHECKPOINTS.items()}
)
"""By chain id, ascending."""
