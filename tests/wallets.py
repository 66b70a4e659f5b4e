"""Shortcuts for tests about wallets in a ledger: a planner like that of `gapless wallet add`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import msgspec

from gapless.core.retry import RetryPolicy
from gapless.core.selector import Range, Selection, summary
from gapless.ledger import Ledger
from gapless.ledger.groups import Hook
from gapless.ledger.records import BackfillRequest
from gapless.ledger.syncs import (
    AddressSet,
    PassRequest,
    PlannedHeights,
    Sync,
    SyncFilter,
    SyncKey,
    Wallet,
    WalletPlan,
)
from tests.support import JOB

ALICE, BOB, CAROL = "0xA11ce", "0xB0b", "0xCa401"
HOOK = msgspec.json.encode(Hook("balances", 1, "default", RetryPolicy())).decode()
_serials = count(1)


def new_id() -> str:
    return f"pass-{next(_serials):06}"  # their order is that of their creation


@dataclass(frozen=True)
class Target:
    """Where the wallets of a group are looked for, from which height to which."""

    heights: tuple[int, int] = (100, 199)
    group: str = "own"
    network: str = "ethereum"
    chain_id: int = 1
    sink: str = "main"
    sink_id: str = "sink-1"
    chunk_size: int = 10
    retry: RetryPolicy = RetryPolicy.unbounded()  # noqa: RUF009 - frozen
    quiet_seconds: float = 0.0

    @property
    def ledger_group(self) -> str:
        return f"wallets-{self.group}-{self.chain_id}-{self.sink_id}"

    def key(self, address: str) -> SyncKey:
        return SyncKey(self.group, address, self.chain_id, self.sink_id)

    def request(
        self, addresses: Sequence[str], heights: tuple[int, int], **more: Any
    ) -> PassRequest:
        first, last = heights
        wanted = AddressSet.of(self.chain_id, addresses)
        terms: dict[str, Any] = {
            "id": new_id(),
            "job": JOB[0],
            "job_version": JOB[1],
            "selector": summary(Range(str(first), str(last))),
            "selection": Selection("blocks", spans=((first, last),)),
            "chunk_size": self.chunk_size,
            "retry": self.retry,
            "spec": {"address_set": wanted.id},
            "group": self.ledger_group,
            "hook": HOOK,
            "quiet_seconds": self.quiet_seconds,
        }
        return PassRequest(
            backfill=BackfillRequest(**(terms | more)),
            group=self.group,
            addresses=wanted,
            network=self.network,
            sink=self.sink,
            sink_id=self.sink_id,
        )

    def plan(self, addresses: Sequence[str], known: Mapping[SyncKey, PlannedHeights]) -> WalletPlan:
        """One pass for each range that some of the wallets lack; the others are renewed."""
        first, last = self.heights
        lacking: dict[tuple[int, int], list[str]] = defaultdict(list)
        renewed = []
        for address in addresses:
            if self.key(address) not in known:
                lacking[self.heights].append(address)
                continue
            planned = known[self.key(address)].heights
            renewed.append(self.key(address))
            if first < planned.first:
                lacking[first, planned.first - 1].append(address)
            if last > planned.last:
                lacking[planned.last + 1, last].append(address)
        passes = [self.request(lacking[heights], heights) for heights in sorted(lacking)]
        return WalletPlan(tuple(passes), tuple(renewed))


async def add(
    ledger: Ledger,
    *addresses: str,
    targets: Sequence[Target] = (),
    label: str | None = None,
    **target: Any,
) -> list[Sync]:
    """Adds wallets on one network, or on several at once."""
    wanted = targets or [replace(Target(), **target)]
    groups = dict.fromkeys(each.group for each in wanted)

    def planner(known: Mapping[SyncKey, PlannedHeights]) -> WalletPlan:
        plans = [each.plan(addresses, known) for each in wanted]
        return WalletPlan(
            tuple(each for plan in plans for each in plan.passes),
            tuple(key for plan in plans for key in plan.renewed),
        )

    wallets = [Wallet(group, address, label) for group in groups for address in addresses]
    return await ledger.add_wallets(wallets, planner, new_id)


async def sync_of(ledger: Ledger, address: str, **wanted: Any) -> Sync:
    (found,) = await ledger.syncs(SyncFilter(address=address, **wanted))
    return found


async def states(ledger: Ledger, **wanted: Any) -> dict[str, str]:
    """The state of each sync, by address; of a wallet with several, the last one."""
    found = await ledger.syncs(SyncFilter(**wanted))
    return {each.key.address: each.state.value for each in found}
