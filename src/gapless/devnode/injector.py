"""Decides which calls get a fault, alters their answers, and counts the faults.

Only an answer that differs counts as a fault: an empty list cannot be truncated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

import msgspec
from msgspec import Raw

from gapless.devnode.chain import Chain
from gapless.devnode.dialect import NodeDialect
from gapless.devnode.faults import (
    OF_BATCHES,
    OF_CALLS,
    OF_NOTICES,
    OF_REQUESTS,
    SPREADING,
    Fault,
    Faults,
)
from gapless.devnode.limits import CallRefused
from gapless.devnode.view import MethodCall, View

_MOST_LAG = 50  # blocks that a stale node is behind
_REORG_DEPTH = 3

_lists = msgspec.json.Decoder(list[Raw]).decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode


class Lot:
    """A fault and the random bits that decide its details."""

    __slots__ = ("bits", "cause", "fault", "plan")

    def __init__(self, cause: Fault, bits: int, plan: tuple[Fault, int] | None = None) -> None:
        self.cause, self.bits, self.plan = cause, bits, plan
        self.fault = SPREADING.get(cause, cause)  # the visible effect


class Injector:
    """The faults of one node."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.injected: Counter[Fault] = Counter()
        self._chances = {fault: chance for fault, chance in faults.chances.items() if chance > 0}
        self._plan = Counter({(it.fault, it.height): it.times for it in faults.plan})
        self._seen: Counter[bytes] = Counter()
        self._by_method: dict[str, frozenset[Fault]] = {}
        self.active = bool(self._chances or self._plan)

    def of_request(self, view: View, calls: Sequence[MethodCall], *, batch: bool) -> Lot | None:
        """The fault of a whole request, if any."""
        scope = OF_REQUESTS if batch else OF_REQUESTS - OF_BATCHES
        for call in calls:
            if planned := self._planned(view, call, scope | SPREADING.keys()):
                return planned
        spreading = [fault for fault in self._chances if fault in SPREADING]
        lots = [self._drawn(b"spreading" + call.key, spreading) for call in calls]
        if any(lots):
            return next(filter(None, lots))
        key = b"\n".join([b"request", *(call.key for call in calls)])
        return self._drawn(key, [fault for fault in self._chances if fault in scope])

    def of_call(self, view: View, call: MethodCall) -> Lot | None:
        """The fault of a single call, if any."""
        fitting = self._fitting(view.chain.dialect, call.method)
        drawn = self._drawn(call.key, [fault for fault in self._chances if fault in fitting])
        return self._planned(view, call, fitting) or drawn

    def _fitting(self, dialect: NodeDialect, method: str) -> frozenset[Fault]:
        """The faults of single calls that can affect this method."""
        if (found := self._by_method.get(method)) is None:
            befallen = dialect.befallen
            found = frozenset(it for it in OF_CALLS if method in befallen.get(it, {method}))
            self._by_method[method] = found
        return found

    def of_notice(self, height: int, block_hash: str) -> Lot | None:
        """The fault of a notice to one subscriber, if any."""
        drawn = self._drawn(
            b"notice" + block_hash.encode(), [each for each in self._chances if each in OF_NOTICES]
        )
        return self._planned_for((height, height), OF_NOTICES) or drawn

    def count(self, lot: Lot) -> None:
        """Counts a fault that was injected."""
        self.injected[lot.cause] += 1
        if lot.plan is not None:
            self._plan[lot.plan] -= 1

    def spoiled(self, lot: Lot, view: View, call: MethodCall, honest: bytes) -> bytes:
        """The answer with the fault applied, counted if it differs."""
        try:
            spoilt = _spoiled(lot, view, call, honest)
        except CallRefused:
            self.count(lot)
            raise
        if spoilt != honest or (lot.fault is Fault.REORG and _replaces_tail(lot, view.chain)):
            self.count(lot)
        return spoilt

    def _planned(self, view: View, call: MethodCall, scope: frozenset[Fault]) -> Lot | None:
        if not self._plan or (heights := view.chain.dialect.heights_in(view, call)) is None:
            return None
        return self._planned_for(heights, scope)

    def _planned_for(self, heights: tuple[int, int], scope: frozenset[Fault]) -> Lot | None:
        for (fault, height), times in self._plan.items():
            if times > 0 and fault in scope and heights[0] <= height <= heights[1]:
                return Lot(fault, height, (fault, height))
        return None

    def _drawn(self, key: bytes, candidates: Sequence[Fault]) -> Lot | None:
        if not candidates:
            return None
        name = blake2b(key, digest_size=8).digest()
        self._seen[name] += 1
        lot = b"%d:%d:%s" % (self.faults.seed, self._seen[name], name)
        bits = int.from_bytes(blake2b(lot, digest_size=16).digest(), "big")
        share = (bits >> 64) / (1 << 64)
        for fault in candidates:
            share -= self._chances[fault]
            if share < 0:
                return Lot(fault, bits & (1 << 64) - 1)
        return None


def _spoiled(lot: Lot, view: View, call: MethodCall, honest: bytes) -> bytes:
    dialect = view.chain.dialect
    is_nothing = honest == dialect.nothing(call)
    match lot.fault:
        case Fault.GONE:
            raise dialect.gone()
        case Fault.NULL:
            return dialect.nothing(call)
        case Fault.EMPTY:
            return honest if is_nothing else b"[]"
        case Fault.TRUNCATED:
            return honest if is_nothing else _truncated(honest, lot.bits, dialect.logs_key)
        case Fault.WRONG_BLOCK:
            return honest if is_nothing else _neighbour(view, call, honest)
        case Fault.STALE_HEAD:
            lagging = view._replace(head=max(0, _stale_head(lot, view)), highest=None)
            return dialect.answer(lagging, call)
        case Fault.WRONG_CHAIN:
            return dialect.other_chain(view, call, honest)
        case Fault.LIMITED_INSIDE:
            raise CallRefused(429, view.provider.rate.words)
    return honest


def _stale_head(lot: Lot, view: View) -> int:
    if lot.plan is not None:
        return lot.plan[1] - 1
    return view.head - 1 - lot.bits % _MOST_LAG


def _truncated(honest: bytes, bits: int, logs_key: str) -> bytes:
    """Without its last log, or without its last item."""
    if honest.startswith(b"{"):
        block = _members(honest)
        transactions = _lists(block.get("transactions", b"[]"))
        if not transactions:
            return honest
        block["transactions"] = Raw(_joined(transactions[:-1]))
        return msgspec.json.encode(block)
    items = _lists(honest)
    if bits & 1:
        for at in range(len(items) - 1, -1, -1):
            item = _members(items[at])
            logs = _lists(item[logs_key]) if logs_key in item else []
            if logs:
                item[logs_key] = Raw(_joined(logs[:-1]))
                items[at] = Raw(msgspec.json.encode(item))
                return _joined(items)
    return _joined(items[:-1])


def _joined(items: Sequence[Raw]) -> bytes:
    return b"[" + b",".join(map(bytes, items)) + b"]"


def _neighbour(view: View, call: MethodCall, honest: bytes) -> bytes:
    dialect = view.chain.dialect
    heights = dialect.heights_in(view, call)
    if heights is None:
        return honest
    return dialect.answer(view, dialect.about(call, heights[0] - 1 if heights[0] else 1))


def _replaces_tail(lot: Lot, chain: Chain) -> bool:
    """The caller still gets the old block, and finds the new ones later."""
    height = lot.plan[1] if lot.plan is not None else chain.head - lot.bits % _REORG_DEPTH
    if not 0 < height <= chain.head:
        return False
    chain.reorg(height)
    return True
