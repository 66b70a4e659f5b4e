"""Providers as in practice: far away, metered, or unreliable."""

from __future__ import annotations

from dataclasses import dataclass

from bench.conditions import Conditions


@dataclass(frozen=True)
class Provider:
    """A node that slows its clients down, and how many small blocks they fetch from it."""

    name: str
    does: str
    blocks: int
    conditions: Conditions


LATENCY = Provider(
    "Latency of 80 ms", "takes 80 ms for every request", 5_000, Conditions(latency_ms=80)
)
RATE_LIMIT = Provider(
    "300 calls per second",
    "allows 300 calls per second; a batch may exceed them, and later requests are refused",
    1_500,
    Conditions(rps=300),
)
METERED = Provider(
    "Metered, 100 calls per second",
    "allows 100 calls per second; a batch that exceeds what is left is refused as a whole, with an"
    " empty HTTP 429",
    500,
    Conditions(rps=100, metered=True),
)
FAULTY_CALLS = Provider(
    "Faulty calls",
    "fails the whole batch if one of its calls fails: 3 % of calls with HTTP 500, 1 % with a"
    " broken connection, 1 % with malformed JSON",
    500,
    Conditions(faults="500=0.03,drop=0.01,malformed=0.01", per_call=True),
)
PROVIDERS = (LATENCY, RATE_LIMIT, METERED, FAULTY_CALLS)
