"""The chain families that are simulated: what differs between their chains and nodes.

A seed has a family: every fifth one is a TRON chain. `--family` chooses it for all seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from gapless.chains import find_network
from gapless.chains.evm.family import EVM
from gapless.chains.family import Family
from gapless.chains.network import Network
from gapless.chains.tron.family import TRON
from gapless.devnode import Chain, Parameters, simulated

_FAULTS = (
    "",
    "",
    "{lost}empty=0.03,wrong-block=0.03",
    "drop=0.06,timeout=0.02,malformed=0.03",
    "null=0.05,stale-head=0.03",
    "500=0.05,429=0.04,429-bare=0.03",
    "lone-error=0.05,omit=0.05,shuffle=0.2",
    "limited=0.04,gone=0.01,null=0.02",
    "call-500=0.02,call-drop=0.02",
)


@dataclass(frozen=True)
class Subject:
    """A family, and what its nodes may say and lack."""

    family: Family
    words: tuple[str, ...]  # providers whose error messages are imitated
    replaceable: str  # a method that a node may lack
    lost: str  # the fault of a node that leaves something out, if that can be proven
    listed: str = ""  # the network of the chain; empty: that of chains that are not listed

    @property
    def network(self) -> Network:
        return find_network(self.listed) if self.listed else self.family.networks[-1]

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(table.name for table in self.family.tables if not table.derived_from)

    @property
    def anchor(self) -> str:
        """The table of blocks."""
        return self.datasets[0]

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of a node, of which one is drawn."""
        return tuple(each.format(lost=self.lost) for each in _FAULTS)

    def chain(self, parameters: Parameters, head: int) -> Chain:
        """A separate chain for every run, over blocks that all runs share."""
        found = _shared(parameters, self.family.name)
        chain = Chain(found.chain_id, found._blocks, found._receipts, found._builder)
        chain.start_at(head)
        return chain


SUBJECTS = {
    "evm": Subject(
        EVM,
        ("geth", "alchemy", "quicknode", "erigon"),
        "eth_getBlockReceipts",
        "truncated=0.04,",
    ),
    # One endpoint cannot prove that no log is missing.
    "tron": Subject(TRON, ("java-tron", "trongrid"), "/wallet/getblockbylimitnext", ""),
}

_TRON_EVERY = 5
Choice = Callable[[int], Subject]


def subject_of(seed: int) -> Subject:
    """The family of a seed."""
    return SUBJECTS["tron" if seed % _TRON_EVERY == _TRON_EVERY - 1 else "evm"]


@cache
def _shared(parameters: Parameters, family: str) -> Chain:
    return simulated(parameters, family=family)
