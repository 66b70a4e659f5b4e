"""What is said when a backfill has ended, and the exit code that says the same."""

from __future__ import annotations

from gapless.cli import render
from gapless.cli.options import commands, complain, hint, note
from gapless.core.backfill import State
from gapless.ledger.records import Backfill
from gapless.views.backfills import backfill_view


def exit_code(found: Backfill) -> int:
    return 0 if found.state is State.SUCCEEDED else 1


def report(found: Backfill, ledger_url: str) -> None:
    """What a person wants to know at the end beside the data, all of it on stderr."""
    shown = backfill_view(found)
    note(f"ledger: {ledger_url}")
    if shown.state is State.FAILED:
        complain(render.failure(shown))
    hint(render.next_step(shown, (), commands()))
