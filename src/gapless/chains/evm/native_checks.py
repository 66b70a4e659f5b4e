"""Checks as the compiled core knows them: bits of a number, in the order of `Check`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gapless.chains.evm.check_names import Check
from gapless.core.proof import Proof

CHECKS = tuple(Check)
BITS: Mapping[str, int] = {check: 1 << at for at, check in enumerate(CHECKS)}


@cache
def mask(checks: frozenset[str]) -> int:
    return sum(BITS[check] for check in checks)


@cache
def proof(proven: int, unproven: int) -> Proof:
    one, other = (
        frozenset(check for check in CHECKS if mask & BITS[check]) for mask in (proven, unproven)
    )
    return Proof(one, other)
