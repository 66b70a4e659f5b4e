"""The toy family: an implementation of `gapless.chains.family`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc

from gapless.chains.decoder import PYTHON
from gapless.chains.family import Examined, Flaw, ReadBlock, Reading, Wanted
from gapless.chains.findings import Findings
from gapless.chains.level import Level
from gapless.chains.network import Era, Finality, Network
from gapless.core.errors import BadAnswer, BadBlock
from gapless.core.proof import ANCHOR, HEIGHT, LINK, Proof
from gapless.providers import EndpointSpec, Pool
from gapless.schema import Table
from gapless.schema.layout import LayoutSet
from tests.toychain.blocks import CHECKS, proof_of, restored, rows_of
from tests.toychain.source import QUERIES, RawBlock, ToySource
from tests.toychain.tables import BLOCKS, MOVES

_FINAL, _ERAS = Finality(None, depth=3), (Era(0, frozenset(CHECKS)),)
_NETWORK = Network(
    family="toy", name="toy", chain_id=770_001, block_time=2, finality=_FINAL, eras=_ERAS
)


class ToyFamily:
    name = "toy"
    tables: tuple[Table, ...] = (BLOCKS, MOVES)
    networks: tuple[Network, ...] = (_NETWORK, replace(_NETWORK, name="toy-custom", chain_id=None))
    checks: tuple[str, ...] = CHECKS
    queries, wallets, decoder = QUERIES, None, PYTHON
    layouts: Mapping[str, LayoutSet] = {}

    @property
    def rows(self) -> "ToyFamily":
        return self

    def level(self, level: Level, datasets: Collection[str]) -> frozenset[str]:
        few = {Level.OFF: frozenset(), Level.LINKS: frozenset({HEIGHT, LINK})}
        return self._provable(few.get(level, frozenset(CHECKS)), datasets)

    def calls(self, blocks: int, datasets: Collection[str]) -> dict[str, int]:
        return {"toy_block": blocks}

    def source(
        self, pool: Pool, network: Network, datasets: Collection[str], checks: Collection[str]
    ) -> ToySource:
        return ToySource(pool)

    def read(
        self, raws: Sequence[RawBlock], wanted: Wanted, samples: Collection[int], *, whole: bool
    ) -> Reading:
        good, read, refused = [], {}, {}
        for height, raw in ((raw.height, raw) for raw in raws):
            try:
                block = raw.parsed()
                if wanted.anchors.get(height, block.seal) != block.seal:
                    raise BadBlock("not the known block", height=height, check=ANCHOR)
                proof = proof_of(block, wanted.network, wanted.checks, height)
                read[height] = ReadBlock(block.seal, block.previous, proof)
                good.append(block)
            except BadAnswer as error:
                refused[height] = error
        return Reading(read, rows_of(good, wanted.chain_id, wanted.datasets), refused, False)

    def repeatable(self, claimed: frozenset[str]) -> frozenset[str]:
        return frozenset(CHECKS) - {LINK}

    def due(self, claimed: frozenset[str], datasets: Collection[str]) -> frozenset[str]:
        return self._provable(claimed, datasets) - {LINK}

    def examine(
        self, rows: Mapping[str, pa.Table], network: Network, chain_id: int, checks: frozenset[str]
    ) -> Examined:
        proofs, flaws, blocks = [], [], restored(rows)
        for it in blocks:
            try:
                proofs.append(proof_of(it, network, self._provable(checks, rows), it.block_number))
            except BadAnswer as error:
                flaws.append(Flaw(it.block_number, BLOCKS.name, str(error)))
            for name, made in rows_of([it], chain_id, rows).items():
                if made != rows[name].filter(pc.field("block_number") == it.block_number):
                    flaws.append(Flaw(it.block_number, name, "columns contradict each other"))
        apart = [it.block_number for before, it in pairwise(blocks) if it.previous != before.seal]
        flaws += [Flaw(it, BLOCKS.name, "not linked to the block before") for it in apart]
        proof = reduce(and_, proofs) if proofs else Proof()
        return Examined(proof | Proof(checks & {LINK}), flaws)

    def derive(self, rows: Mapping[str, pa.Table], chain_id: int) -> Mapping[str, pa.Table]:
        return {}

    async def probe(
        self, spec: EndpointSpec, network: Network | None, anchors: Mapping[int, bytes]
    ) -> Findings:
        chain = network or self.networks[-1]
        async with Pool([spec], QUERIES, chain_id=chain.chain_id, patience=2.0) as pool:
            return Findings(
                endpoint=spec.name,
                head=await (source := ToySource(pool)).head(),
                chain_id=pool.chain_id or 0,
                network=chain.name,
                earliest_block=0,
                batch_calls=source.unit,
                calls=pool.calls.total(),
                cost="a block with its moves costs 1 call",
            )

    def _provable(self, checks: frozenset[str], datasets: Collection[str]) -> frozenset[str]:
        return checks if MOVES.name in datasets else checks - {"moves"}


TOY = ToyFamily()
