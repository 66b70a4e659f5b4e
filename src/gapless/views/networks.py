"""The networks that Gapless knows, and what can be proven of each."""

from __future__ import annotations

from msgspec import Struct

from gapless.chains import Network, family_of


class FinalityView(Struct, frozen=True, kw_only=True):
    """The tag of the final block, and the depth that counts where a node has no such tag."""

    tag: str | None
    depth: int


class EraView(Struct, frozen=True, kw_only=True, rename={"start": "from"}):
    """The checks that blocks can pass, from a height on."""

    start: int
    checks: tuple[str, ...]


class KnownBlockView(Struct, frozen=True, kw_only=True):
    """A block whose hash is known beforehand."""

    height: int
    hash: str


class NetworkView(Struct, frozen=True, kw_only=True):
    """A network; the chain id of `custom` is not known beforehand."""

    name: str
    chain_id: int | None
    aliases: tuple[str, ...]
    block_time: float
    finality: FinalityView
    checks: tuple[EraView, ...]
    known_blocks: tuple[KnownBlockView, ...]


def network_view(network: Network) -> NetworkView:
    every = family_of(network).checks
    return NetworkView(
        name=network.name,
        chain_id=network.chain_id,
        aliases=network.aliases,
        block_time=network.block_time,
        finality=FinalityView(tag=network.finality.tag, depth=network.finality.depth),
        checks=tuple(
            EraView(start=era.start, checks=tuple(it for it in every if it in era.checks))
            for era in network.eras
        ),
        known_blocks=tuple(
            KnownBlockView(height=each.height, hash=f"0x{each.hash.hex()}")
            for each in network.anchors
        ),
    )
