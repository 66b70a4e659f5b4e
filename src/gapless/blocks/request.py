"""From what a person asks for to a fetch: all that can be wrong about it is found here.

No node is asked and nothing is made before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypedDict, TypeVar

import msgspec

from gapless.blocks.plan import FOREGROUND, FetchRequest, datasets_of
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
from gapless.sinks.location import is_shareable

E = TypeVar("E", bound=StrEnum)


class FetchOptions(TypedDict, total=False):
    """How a fetch is done. What is left out, or None, is the configuration's choice."""

    datasets: str | None  # `blocks,logs`; all of them
    workers: int | None
    batch_size: int | None
    chunk_size: int | None
    max_concurrent: int | None
    verify: str | None
    retry: str | None
    rps: float | None
    order: str | None
    confirmations: int | None  # blocks below the head that are not taken for final
    anchors: Sequence[str] | None  # `HEIGHT:HASH` of blocks that are trusted
    refetch: bool | None  # whether to replace what is stored


FOREGROUND_RETRY = RetryPolicy.backoff(base=2.0, max_delay=60.0, retries=30)
"""While a person waits: seconds at first, and half an hour of trouble before it gives up."""

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
    """The request, with all that can be wrong about it found before a node is asked.

    One that is `detached` is run by workers, and nobody waits for it.
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
    if detached or kind not in (RetryKind.BACKOFF, RetryKind.UNBOUNDED):
        return RetryPolicy.named(kind)
    return msgspec.structs.replace(FOREGROUND_RETRY, kind=kind)


def _anchors(network: Network, texts: Sequence[str]) -> tuple[Anchor, ...]:
    anchors = tuple(sorted({*map(Anchor.parse, texts)}))
    known_hashes(network, anchors)  # refuses contradictions
    return anchors


def _one_of(kind: type[E], what: str, text: str) -> E:
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(kind)
        raise UsageError(f"`{what}` is `{text}`", hint=f"it is one of {known}") from None


def _heights(text: str | None, start: int | None, end: int | None) -> Heights:
    if text is not None:
        return Heights.parse(text)
    if start is None or end is None:
        raise UsageError("no range of blocks is given", hint="give one, such as `18M:+5000`")
    return Heights.parse(f"{start}:{end}")
