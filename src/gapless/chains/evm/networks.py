"""The EVM networks, and how each differs from Ethereum.

polygon     state-sync transactions are not in the roots and the bloom, but their hash is derivable
arbitrum    retryables and deposits (0x64-0x69) have no known encoding; the transactions of blocks
            that contain them stay unproven. Blocks from before Nitro prove nothing
optimism    since Isthmus `withdrawalsRoot` is a storage root; nothing is proven before Bedrock
gnosis      sealed by AuRa until the merge, with other fields than Ethereum's
avalanche   headers have additional fields and a different order
cronos      CometBFT hashes and roots; some transactions have no receipt
stable      CometBFT block hashes, but Ethereum's roots; a log index may appear twice
tempo       an Ethereum header inside another one; transactions of type 0x76
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gapless.chains.evm.check_names import BASIC, FULL, Check
from gapless.chains.evm.checkpoints import CHECKPOINTS
from gapless.chains.evm.codec.header import HeaderForm
from gapless.chains.evm.coins import ETHER, SYMBOLS, WRAPPED
from gapless.chains.network import Era, Finality, Network


@dataclass(frozen=True, kw_only=True)
class EvmNetwork(Network):
    """An EVM network, and how its blocks differ from Ethereum's."""

    family: str = "evm"
    header: HeaderForm = HeaderForm.ETHEREUM
    byzantium: int = 0  # receipts below it hold a state root, which some nodes have not kept
    sprint: int = 0  # Polygon: state is synchronised at every multiple of this height
    coin: str = ETHER
    wrapped: bytes | None = None  # the contract that turns coins into tokens and back
    pays_with_tokens: bool = False  # fees are paid with tokens, by ordinary transfers
    withdraws_coins: bool = True  # else validators' withdrawals wait in a contract
    signed_since: int | None = None
    """The first block from which on only what an account signs, by which its nonce grows, takes
    coins from it, unless it has code. Every way to spend must have been studied, so it is None for
    most networks: Arbitrum's retryable tickets and zkSync's accounts spend in other ways."""


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


_ALIASES = {
    "arbitrum": ("arb",),
    "avalanche": ("avax",),
    "bsc": ("bnb",),
    "ethereum": ("eth", "mainnet"),
    "gnosis": ("xdai",),
    "optimism": ("op",),
    "polygon": ("matic",),
}


def _network(
    name: str, chain_id: int | None, block_time: float, finality: Finality, **facts: Any
) -> EvmNetwork:
    return EvmNetwork(
        name=name,
        chain_id=chain_id,
        block_time=block_time,
        finality=finality,
        anchors=CHECKPOINTS.get(chain_id or 0, ()),
        aliases=_ALIASES.get(name, ()),
        coin=SYMBOLS.get(name, ETHER),
        wrapped=WRAPPED.get(name),
        **facts,
    )


def _ethereum(name: str, chain_id: int, byzantium: int = 0, **more: Any) -> EvmNetwork:
    caveat = f"below {byzantium:,} receipts_root, if the node lacks root"
    caveats = (caveat,) if byzantium else ()
    facts = {"eras": _always(FULL), "byzantium": byzantium, "caveats": caveats, **more}
    facts["signed_since"] = 0
    return _network(name, chain_id, 12, _TAGGED, **facts)


def _rollup(name: str, chain_id: int, block_time: float = 2, bedrock: int = 0) -> EvmNetwork:
    eras = _since(bedrock, _ROLLUP) if bedrock else _always(_ROLLUP)
    since = bedrock + 1 if bedrock else 0  # that block itself moved all balances
    return _network(name, chain_id, block_time, _ROLLUP_FINALITY, eras=eras, signed_since=since)


def _arbitrum(name: str, chain_id: int, nitro: int = 0) -> EvmNetwork:
    eras = _since(nitro, _ARBITRUM) if nitro else _always(_ARBITRUM)
    return _network(name, chain_id, 0.25, _ARBITRUM_FINALITY, eras=eras)


def _polygon(name: str, chain_id: int, sprint: int = 16) -> EvmNetwork:
    caveats = (f"state_sync in every {sprint}th block",)
    facts = {"eras": _always(FULL), "sprint": sprint, "caveats": caveats}
    return _network(name, chain_id, 2, Finality("finalized", 256), reorg_depth=256, **facts)


def _avalanche(name: str, chain_id: int) -> EvmNetwork:
    facts = {"eras": _always(_AVALANCHE), "header": HeaderForm.AVALANCHE}
    return _network(name, chain_id, 1.5, Finality("finalized", 1), reorg_depth=1, **facts)


def _gnosis(name: str, chain_id: int) -> EvmNetwork:
    facts = {"eras": _always(FULL), "header": HeaderForm.AURA, "withdraws_coins": False}
    return _network(name, chain_id, 5, _TAGGED, **facts)


def _tempo(name: str, chain_id: int) -> EvmNetwork:
    facts = {"eras": _always(_TEMPO), "header": HeaderForm.TEMPO, "pays_with_tokens": True}
    return _network(name, chain_id, 0.5, _AT_ONCE, reorg_depth=1, **facts)


def _settled(name: str, chain_id: int, block_time: float, checks: frozenset[Check]) -> EvmNetwork:
    return _network(name, chain_id, block_time, _AT_ONCE, reorg_depth=1, eras=_always(checks))


def _unstudied(name: str, chain_id: int, block_time: float) -> EvmNetwork:
    return _network(name, chain_id, block_time, _ROLLUP_FINALITY, eras=_always(BASIC))


CUSTOM = _network("custom", None, 12, _TAGGED, eras=_always(FULL))

NETWORKS: tuple[EvmNetwork, ...] = (
    _ethereum("ethereum", 1, byzantium=4_370_000, variable="ETH_RPC_URL"),
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
    _network("bsc", 56, 0.75, Finality("finalized", 21), eras=_always(FULL)),
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
