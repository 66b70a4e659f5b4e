"""What endpoints are good for, and what that means for a fetch: `doctor`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from gapless.chains import family_of, find_network
from gapless.chains.decoder import Decoder
from gapless.chains.findings import Findings
from gapless.views.figures import duration, short

_MANY = 1_000_000  # blocks


class RateView(Struct, frozen=True, kw_only=True):
    """Blocks with their receipts, fetched for a short while; `limited`: it asked for less."""

    calls_per_second: float
    blocks_per_second: float
    limited: bool


class UsableEndpoint(Struct, frozen=True, kw_only=True):
    """An endpoint that answers: what it is and what it can do."""

    endpoint: str
    chain_id: int
    network: str
    client: str | None
    head: int
    finalized: int | None
    known_block: int | None
    genesis: str | None
    earliest_block: int
    receipts_by_block: bool | None
    receipts_by_transaction: bool | None
    batch_calls: int
    logs_range: int | None
    offers: dict[str, bool]
    rate: RateView | None
    calls: int
    decoder: str
    usable: bool
    meaning: tuple[str, ...]


class UnusableEndpoint(Struct, frozen=True, kw_only=True):
    """An endpoint that cannot be used, and why."""

    endpoint: str
    usable: bool
    error: str
    hint: str


def usable_endpoint(found: Findings) -> UsableEndpoint:
    facts = msgspec.structs.asdict(found)
    del facts["cost"]  # it is among what is said of its meaning
    rate = found.rate and RateView(**msgspec.structs.asdict(found.rate))
    facts |= {"rate": rate, "decoder": str(_decoder(found))}
    return UsableEndpoint(**facts, usable=True, meaning=tuple(meaning(found)))


def _decoder(found: Findings) -> Decoder:
    return family_of(find_network(found.network)).decoder


def unusable_endpoint(endpoint: str, error: str, hint: str) -> UnusableEndpoint:
    return UnusableEndpoint(endpoint=endpoint, usable=False, error=error, hint=hint)


def meaning(found: Findings) -> Iterator[str]:
    """What the findings mean for a fetch, in sentences."""
    if found.earliest_block:
        yield f"history begins at {found.earliest_block:,}: older blocks need an archive endpoint"
    else:
        yield "the whole history is there"
    yield found.cost
    if found.finalized is None:
        depth = find_network(found.network).finality.depth
        rule = f"blocks at least {depth:,} below the head count as final"
        yield f"the node reports no finalized block: {rule}"
    if found.rate is not None and found.rate.blocks_per_second:
        pace = found.rate.blocks_per_second
        yield f"about {short(pace)} blocks/s: a million blocks in {duration(_MANY / pace)}"
        if found.rate.limited:
            yield (
                "it limits the rate: a fetch slows down by itself; a configured `rps` avoids"
                " the refusals"
            )
