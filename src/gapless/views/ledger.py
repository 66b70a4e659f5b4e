"""Upkeep of the ledger: `ledger check`, `ledger migrate` and `ledger compact`."""

from __future__ import annotations

from msgspec import Struct


class LedgerCheckView(Struct, frozen=True, kw_only=True):
    """How many backfills were checked, and where their events and tables differ."""

    backfills: int
    problems: tuple[str, ...]


class MigrationView(Struct, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """The version of the schema before and after."""

    before: int
    after: int


class CompactionView(Struct, frozen=True, kw_only=True):
    """How many events a snapshot has replaced."""

    events: int
