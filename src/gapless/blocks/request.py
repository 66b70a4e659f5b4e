"""Builds and validates the request of a fetch.

Validation happens before any node is contacted and before anything is created.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypedDict, TypeVar

import msgspec

from gapless.blocks.plan import FetchRequest, datasets_of
from gapless.blocks.spec import known_hashes
from gapless.blocks.targets import Targets, targets_of
from gapless.chains import Level, Network, find_network
from gapless.config import Config, checked
from gapless.core.anchors import Anchor
from gapless.core.chunk import Order
from gapless.core.errors import UsageError
from gapless.core.heights import Heights
from gapless.core.remedies import UseOneProcess
from gapless.core.retry import RetryKind, RetryPolicy
from gapless.runtime.slots import FOREGROUND
from gapless.sinks.location import is_shareable

E = TypeVar("E", bound=StrEnum)


class FetchOptions(TypedDict, total=False):
    """The options of a fetch. Options that are omitted or None come from the configuration."""

    datasets: str | None  # such as `blocks,logs`; default: all but `transfers`
    workers: int | None
    batch_size: int | None
    chunk_size: int | None
    max_concurrent: int | None
    verify: str | None
    retry: str | None
    rps: float | None
    order: str | None
    confirmations: int | None  # blocks below the head that are not treated as final
    anchors: Sequence[str] | None  # `HEIGHT:HASH` of trusted blocks
    refetch: bool | None  # whether to replace stored blocks


_NUMBERS = ("workers", "batch_size", "chunk_size", "max_concurrent", "verify", "retry")


def build_request(
    config: Config,
    network: str,
    heights: str | None,
    rpcs: Sequence[str],
    target: str | None,
    options: FetchOptions,
    processes: int = 1,
    *,
    detached: bool = False,
) -> tuple[FetchRequest, Targets]:
    """Builds the request and validates it before any node is contacted.

    Workers run a `detached` request; the caller does not wait for it.
    """
    chain = find_network(network)
    said = {name: options.get(name) for name in _NUMBERS if options.get(name) is not None}
    numbers = checked(msgspec.structs.replace(config.fetch, **said))
    if processes > numbers.max_concurrent:
        numbers = msgspec.structs.replace(numbers, max_concurrent=processes)
    targets = targets_of(config, chain, rpcs, target, options.get("rps"))
    if processes > 1 and not is_shareable(targets.config.sink(targets.sink)):
        raise UsageError(
            f"`{targets.sink}` can be open in one process only",
            remedy=UseOneProcess(),
        )
    return FetchRequest(
        network=chain,
        heights=_heights(heights, numbers.start_height, numbers.end_height),
        datasets=datasets_of(options.get("datasets"), chain),
        endpoints=targets.endpoints,
        sink=targets.sink,
        verify=_one_of(Level, "verify", numbers.verify),
        numbers=numbers,
        anchors=_anchors(chain, options.get("anchors") or ()),
        refetch=options.get("refetch") or False,
        order=_one_of(Order, "order", options.get("order") or Order.OLDEST),
        retry=config.retry.applied(
            _retry(_one_of(RetryKind, "retry", numbers.retry), detached=detached)
        ),
        queue=config.queue if targets.shared else FOREGROUND,
        confirmations=options.get("confirmations"),
        processes=processes,
    ), targets


def _retry(kind: RetryKind, *, detached: bool) -> RetryPolicy:
    return RetryPolicy.named(kind) if detached else RetryPolicy.foreground(kind)


def _anchors(network: Network, texts: Sequence[str]) -> tuple[Anchor, ...]:
    anchors = tuple(sorted({*map(Anchor.parse, texts)}))
    known_hashes(network, anchors)  # refuses contradictions
    return anchors


def _one_of(kind: type[E], what: str, text: str) -> E:
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(kind)
        raise UsageError(f"`{what}` is `{text}`", hint=f"use one of {known}") from None


def _heights(text: str | None, start: int | None, end: int | None) -> Heights:
    if text is not None:
        return Heights.parse(text)
    if start is None or end is None:
        raise UsageError("no block range given", hint="give one, such as `18M:+5000`")
    return Heights.parse(f"{start}:{end}")
