"""The TRON family: implements the interface of `gapless.chains.family`.

Commands start faster with fewer imports, so modules that need Arrow or a network client are
imported on first use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from gapless.chains.decoder import PYTHON
from gapless.chains.tron import levels
from gapless.chains.tron.check_names import TronCheck
from gapless.chains.tron.networks import TRON_NETWORKS
from gapless.chains.tron.tables import TRON_DERIVED_TABLES, TRON_TABLES

if TYPE_CHECKING:
    from gapless.chains.family import Reading, RowProofs, Wanted
    from gapless.chains.findings import Findings
    from gapless.chains.level import Level
    from gapless.chains.movements import WalletRules
    from gapless.chains.network import Network
    from gapless.chains.tron.raw_block import RawTronBlock
    from gapless.chains.tron.source import TronSource
    from gapless.providers import EndpointSpec, NodeQueries, Pool
    from gapless.schema.layout import LayoutSet


class TronFamily:
    """TRON, and chains whose nodes are java-tron."""

    name = "tron"
    tables = (*TRON_TABLES, *TRON_DERIVED_TABLES)
    networks: tuple[Network, ...] = TRON_NETWORKS
    checks: tuple[str, ...] = tuple(TronCheck)
    layouts: Mapping[str, LayoutSet] = {}
    decoder = PYTHON

    @property
    def queries(self) -> NodeQueries:
        from gapless.chains.tron.queries import QUERIES

        return QUERIES

    def level(self, level: Level, datasets: Collection[str]) -> frozenset[str]:
        return levels.checks_of(level, datasets)

    def calls(self, blocks: int, datasets: Collection[str]) -> dict[str, int]:
        from gapless.chains.tron.queries import calls_of

        return calls_of(blocks, infos=levels.needs_infos(datasets))

    def source(
        self, pool: Pool, network: Network, datasets: Collection[str], checks: Collection[str]
    ) -> TronSource:
        from gapless.chains.tron.source import TronSource

        infos = levels.needs_infos(datasets)
        return TronSource(pool, network, infos=infos, second_opinions=TronCheck.AGREED in checks)

    def read(
        self, raws: Sequence[RawTronBlock], wanted: Wanted, samples: Collection[int], *, whole: bool
    ) -> Reading:
        from gapless.chains.tron.reading import read

        return read(raws, wanted)

    @property
    def rows(self) -> RowProofs:
        from gapless.chains.tron.rows import TronRowProofs

        return TronRowProofs()

    @property
    def wallets(self) -> WalletRules:
        from gapless.chains.tron.wallet_rules import TronWalletRules

        return TronWalletRules()

    async def probe(
        self, spec: EndpointSpec, network: Network | None, anchors: Mapping[int, bytes]
    ) -> Findings:
        from gapless.chains.tron.probe import probe

        return await probe(spec, network, anchors)


TRON = TronFamily()
