"""The TRON networks.

A chain id is the last four bytes of the genesis block's id, as the nodes' JSON-RPC reports it.
"""

from __future__ import annotations

from gapless.chains.network import Era, Finality, Network
from gapless.chains.tron.check_names import PROVABLE, TronCheck
from gapless.core.anchors import Anchor

_ALWAYS = (Era(0, PROVABLE),)
# The first versions of the node did not keep infos. Nodes that began with a snapshot of the chain
# have them for all transactions from this height on, but not for all earlier ones.
_INFOS_KEPT = 11_015_604
_PUBLIC = (Era(0, PROVABLE - {TronCheck.COUNTS}), Era(_INFOS_KEPT, PROVABLE))
# A block is solid once 19 of the 27 witnesses have produced a block on top of it.
_SOLIDIFIED = Finality("solidified", 19)
_CAVEATS = ("logs", "transactions_root, if the node's JSON omits fields")


def chain_id_of(genesis: bytes) -> int:
    """Return the chain id that belongs to the id of a genesis block."""
    return int.from_bytes(genesis[-4:], "big")


def _network(name: str, genesis: str | None, aliases: tuple[str, ...] = ()) -> Network:
    anchors = () if genesis is None else (Anchor(0, bytes.fromhex(genesis)),)
    return Network(
        family="tron",
        name=name,
        chain_id=chain_id_of(anchors[0].hash) if anchors else None,
        block_time=3,
        finality=_SOLIDIFIED,
        reorg_depth=27,
        eras=_PUBLIC if anchors else _ALWAYS,
        anchors=anchors,
        aliases=aliases,
        caveats=_CAVEATS,
    )


MAINNET_GENESIS = "00000000000000001ebf88508a03865c71d452e25f4d51194196a1d22b6653dc"
_NILE_GENESIS = "0000000000000000d698d4192c56cb6be724a558448e2684802de4d6cd8690dc"
_SHASTA_GENESIS = "0000000000000000de1aa88295e1fcf982742f773e0419c5a9c134c994a9059e"

TRON_CUSTOM = _network("tron-custom", None)

TRON_NETWORKS: tuple[Network, ...] = (
    _network("tron", MAINNET_GENESIS, ("trx", "tron-mainnet")),
    _network("tron-nile", _NILE_GENESIS, ("nile",)),
    _network("tron-shasta", _SHASTA_GENESIS, ("shasta",)),
    TRON_CUSTOM,
)
