"""The networks that Gapless knows: how they settle, and what of them can be proven.

A check is listed for a network only where its blocks were seen to pass it, or where its client is
a plain go-ethereum in that respect; a check that honest blocks would fail is worse than none. Some
networks changed over time, so the checks go by height. What a network's blocks cannot prove is
recorded with the stored range as unproven: the registry never makes a proof look stronger.

    polygon     state-sync transactions stand outside roots and bloom, yet their hash is derivable
    arbitrum    retryables and deposits (0x64-0x69) have no known encoding; blocks with any of them
                leave the transactions unproven. Blocks from before Nitro prove nothing
    optimism    since Isthmus `withdrawalsRoot` is a storage root; nothing is proven before Bedrock
    gnosis      sealed by AuRa until the merge, by other fields than Ethereum's
    avalanche   headers have fields of their own, in an order of their own
    cronos      CometBFT hashes and roots; some transactions have no receipt
    stable      CometBFT block hashes, but Ethereum's roots; a log index may appear twice
    tempo       an Ethereum header inside another one; transactions of type 0x76
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from gapless.core.anchors import Anchor
from gapless.core.errors import UsageError
from gapless.core.evm.checkpoints import CHECKPOINTS
from gapless.core.evm.header import HeaderForm
from gapless.core.remedies import ListNetworks
from gapless.core.similar import did_you_mean


class Check(StrEnum):
    """What can be held against a block, from the cheapest to the dearest."""

    HEIGHT = "height"  # it is the block that was asked for
    LINK = "link"  # its parent is the block before
    COUNTS = "counts"  # every transaction has its receipt
    PLACES = "places"  # its transactions and receipts name it, and their place in it
    EMPTY = "empty"  # a root is that of the empty list exactly where the list is empty
    GAS = "gas"  # the last receipt's cumulative gas is the block's
    RECEIPT_BLOOMS = "receipt_blooms"  # each receipt's bloom is that of its logs
    BLOOM = "bloom"  # the header's bloom is that of all logs
    HEADER_HASH = "header_hash"
    RECEIPTS_ROOT = "receipts_root"
    STATE_SYNC = "state_sync"  # Polygon: the receipt outside the roots; nothing proves it
    TRANSACTIONS_ROOT = "transactions_root"  # and each transaction's hash
    WITHDRAWALS_ROOT = "withdrawals_root"
    DERIVED = "derived"  # gas used, contract addresses and others that follow from proven fields
    PRICES = "prices"  # effective gas prices, by EIP-1559
    LOG_INDEX = "log_index"  # logs are numbered without a gap
    SENDERS = "senders"  # every sender is who signed
    AGREED = "agreed"  # logs that came without receipts: two endpoints name the same
    ANCHOR = "anchor"  # at a height whose hash is known, it is that block


@dataclass(frozen=True, slots=True)
class Finality:
    """Which blocks will not change: by the node's tag where it has one, else by depth."""

    tag: str | None
    depth: int


@dataclass(frozen=True, slots=True)
class Era:
    """From `start` on, these checks hold."""

    start: int
    checks: frozenset[Check]


@dataclass(frozen=True, slots=True)
class Network:
    """A chain: who it is, how it settles, and what its blocks can prove."""

    name: str
    chain_id: int | None  # None: whatever the node says
    block_time: float  # seconds
    finality: Finality
    reorg_depth: int = 64
    eras: tuple[Era, ...] = field(default=(), repr=False)
    header: HeaderForm = HeaderForm.ETHEREUM
    byzantium: int = 0  # below, a receipt holds a state root, which not every node has kept
    sprint: int = 0  # Polygon: state is synchronised in every block that this divides

    @property
    def anchors(self) -> tuple[Anchor, ...]:
        """Its genesis and later blocks, as far as their hashes are known here; ascending."""
        if self.chain_id is None or self.name == "custom":  # a private chain may have any id
            return ()
        return CHECKPOINTS.get(self.chain_id, ())

    def checks_at(self, height: int) -> frozenset[Check]:
        """The checks that an honest block at this height passes."""
        return next((era.checks for era in reversed(self.eras) if era.start <= height), NONE)


NONE: frozenset[Check] = frozenset()
FULL = frozenset(Check) - {Check.STATE_SYNC, Check.AGREED, Check.ANCHOR}
BASIC = frozenset({Check.HEIGHT, Check.LINK, Check.COUNTS, Check.PLACES})

_ROLLUP = FULL - {Check.WITHDRAWALS_ROOT}
_ARBITRUM = FULL - {Check.PRICES}
_AVALANCHE = FULL - {Check.PRICES}
_TEMPO = FULL - {Check.PRICES, Check.SENDERS}  # some of its own transactions are not signed
_STABLE = FULL - {Check.HEADER_HASH, Check.PRICES, Check.LOG_INDEX, Check.SENDERS}
_CRONOS = frozenset({Check.HEIGHT, Check.LINK, Check.PLACES, Check.RECEIPT_BLOOMS})

_TAGGED = Finality("finalized", 64)
_ROLLUP_FINALITY = Finality("finalized", 900)  # half an hour of 2-second blocks
_ARBITRUM_FINALITY = Finality("finalized", 7200)
_AT_ONCE = Finality(None, 1)


def _always(checks: frozenset[Check]) -> tuple[Era, ...]:
    return (Era(0, checks),)


def _since(start: int, checks: frozenset[Check]) -> tuple[Era, ...]:
    return (Era(0, BASIC), Era(start, checks))


CUSTOM = Network("custom", None, 12, _TAGGED, eras=_always(FULL))


def _ethereum(name: str, chain_id: int, byzantium: int = 0) -> Network:
    return Network(name, chain_id, 12, _TAGGED, eras=_always(FULL), byzantium=byzantium)


def _rollup(name: str, chain_id: int, block_time: float = 2, bedrock: int = 0) -> Network:
    eras = _since(bedrock, _ROLLUP) if bedrock else _always(_ROLLUP)
    return Network(name, chain_id, block_time, _ROLLUP_FINALITY, eras=eras)


def _arbitrum(name: str, chain_id: int, nitro: int = 0) -> Network:
    eras = _since(nitro, _ARBITRUM) if nitro else _always(_ARBITRUM)
    return Network(name, chain_id, 0.25, _ARBITRUM_FINALITY, eras=eras)


def _polygon(name: str, chain_id: int) -> Network:
    finality = Finality("finalized", 256)
    return Network(name, chain_id, 2, finality, 256, _always(FULL), sprint=16)


def _avalanche(name: str, chain_id: int) -> Network:
    finality = Finality("finalized", 1)
    return Network(
        name, chain_id, 1.5, finality, 1, _always(_AVALANCHE), header=HeaderForm.AVALANCHE
    )


def _gnosis(name: str, chain_id: int) -> Network:
    return Network(name, chain_id, 5, _TAGGED, eras=_always(FULL), header=HeaderForm.AURA)


def _tempo(name: str, chain_id: int) -> Network:
    return Network(name, chain_id, 0.5, _AT_ONCE, 1, _always(_TEMPO), header=HeaderForm.TEMPO)


def _settled(name: str, chain_id: int, block_time: float, checks: frozenset[Check]) -> Network:
    return Network(name, chain_id, block_time, _AT_ONCE, 1, _always(checks))


def _unstudied(name: str, chain_id: int, block_time: float) -> Network:
    return Network(name, chain_id, block_time, _ROLLUP_FINALITY, eras=_always(BASIC))


_ALL = (
    _ethereum("ethereum", 1, byzantium=4_370_000),
    _ethereum("sepolia", 11_155_111),
    _ethereum("holesky", 17_000),
    _ethereum("hoodi", 560_048),
    _ethereum("goerli", 5),
    _rollup("base", 8453),
    _rollup("base-sepolia", 84_532),
    _rollup("base-goerli", 84_531),
    _rollup("optimism", 10, bedrock=105_235_063),
    _rollup("optimism-sepolia", 11_155_420),
    _rollup("unichain", 130, block_time=1),
    _arbitrum("arbitrum", 42_161, nitro=22_207_818),
    _arbitrum("arbitrum-nova", 42_170),
    _arbitrum("arbitrum-sepolia", 421_614),
    _polygon("polygon", 137),
    _polygon("polygon-amoy", 80_002),
    Network("bsc", 56, 0.75, Finality("finalized", 21), eras=_always(FULL)),
    _avalanche("avalanche", 43_114),
    _avalanche("avalanche-fuji", 43_113),
    _gnosis("gnosis", 100),
    _gnosis("gnosis-chiado", 10_200),
    _settled("cronos", 25, 0.5, _CRONOS),
    _settled("stable", 988, 0.7, _STABLE),
    _settled("stable-testnet", 2201, 0.7, _STABLE),
    _tempo("tempo", 4217),
    _tempo("tempo-moderato", 42_431),
    _unstudied("linea", 59_144, 2),
    _unstudied("scroll", 534_352, 3),
    _unstudied("mantle", 5000, 2),
    _unstudied("celo", 42_220, 1),
    _unstudied("zksync", 324, 1),
    CUSTOM,
)

NETWORKS: Mapping[str, Network] = MappingProxyType({it.name: it for it in _ALL})
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "arb": "arbitrum",
        "avax": "avalanche",
        "bnb": "bsc",
        "eth": "ethereum",
        "mainnet": "ethereum",
        "matic": "polygon",
        "op": "optimism",
        "xdai": "gnosis",
    }
)
_BY_CHAIN_ID = {it.chain_id: it for it in _ALL if it.chain_id is not None}


def find_network(key: str | int) -> Network:
    """The network of a name, an alias or a chain id (which may be text)."""
    if isinstance(key, int) or key.isdecimal():
        return network_of_chain(int(key))
    name = key.strip().lower()
    found = NETWORKS.get(ALIASES.get(name, name))
    if found is None:
        similar = did_you_mean(name, [*NETWORKS, *ALIASES])
        remedy = None if similar else ListNetworks()
        raise UsageError(f"there is no network `{key}`", hint=similar, remedy=remedy)
    return found


def network_of_chain(chain_id: int) -> Network:
    """The network of a chain id; one that is not known is `custom`, with that id."""
    return _BY_CHAIN_ID.get(chain_id) or replace(CUSTOM, chain_id=chain_id)
