"""The EVM family: implements the interface of `gapless.chains.family`.

Commands start faster with fewer imports, so modules that need Arrow or a network client are
imported on first use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks import levels
from gapless.chains.evm.networks import NETWORKS
from gapless.chains.evm.tables import DERIVED_TABLES, TABLES

if TYPE_CHECKING:
    from gapless.chains.decoder import Decoder
    from gapless.chains.evm.raw_block import EvmRawBlock
    from gapless.chains.evm.source import EvmSource
    from gapless.chains.family import Reading, RowProofs, Wanted
    from gapless.chains.findings import Findings
    from gapless.chains.level import Level
    from gapless.chains.movements import WalletRules
    from gapless.chains.network import Network
    from gapless.providers import EndpointSpec, NodeQueries, Pool
    from gapless.schema.layout import LayoutSet


class EvmFamily:
    """Ethereum, and chains with the same JSON-RPC and block structure."""

    name = "evm"
    tables = (*TABLES, *DERIVED_TABLES)
    networks: tuple[Network, ...] = NETWORKS
    checks: tuple[str, ...] = tuple(Check)

    @property
    def queries(self) -> NodeQueries:
        from gapless.chains.evm.queries import QUERIES

        return QUERIES

    @property
    def decoder(self) -> Decoder:
        from gapless.chains.evm.native import installed

        return installed().decoder

    def level(self, level: Level, datasets: Collection[str]) -> frozenset[str]:
        return levels.checks_of(level, datasets)

    def calls(self, blocks: int, datasets: Collection[str]) -> dict[str, int]:
        found = {"eth_getBlockByNumber": blocks}
        if levels.needs_receipts(datasets):
            found["eth_getBlockReceipts"] = blocks
        return found

    def source(
        self, pool: Pool, network: Network, datasets: Collection[str], checks: Collection[str]
    ) -> EvmSource:
        from gapless.chains.evm.source import EvmSource

        receipts = levels.needs_receipts(datasets)
        return EvmSource(pool, network, receipts=receipts, second_opinions=bool(checks))

    def read(
        self, raws: Sequence[EvmRawBlock], wanted: Wanted, samples: Collection[int], *, whole: bool
    ) -> Reading:
        from gapless.chains.evm.native import installed
        from gapless.chains.evm.native_reading import read_native
        from gapless.chains.evm.reading import read

        core, found = installed().module, None
        if core is not None:
            found = read_native(core, raws, wanted, samples, whole=whole)
        return read(raws, wanted, samples, whole=whole) if found is None else found

    @property
    def rows(self) -> RowProofs:
        from gapless.chains.evm.checks.rows import EvmRowProofs

        return EvmRowProofs()

    @property
    def layouts(self) -> Mapping[str, LayoutSet]:
        from gapless.chains.evm.layouts import LAYOUTS

        return LAYOUTS

    @property
    def wallets(self) -> WalletRules:
        from gapless.chains.evm.wallet_rules import EvmWalletRules

        return EvmWalletRules()

    async def probe(
        self, spec: EndpointSpec, network: Network | None, anchors: Mapping[int, bytes]
    ) -> Findings:
        from gapless.chains.evm.probe import probe

        return await probe(spec, network, anchors)


EVM = EvmFamily()
