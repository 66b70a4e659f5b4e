"""Suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A question that suggests similar known names; None if there is none.

    >>> did_you_mean("endpoint", ["ledger", "endpoints", "sinks"])
    'did you mean `endpoints`?'
    """
    from difflib import get_close_matches

    similar = get_close_matches(name, [*known], n=2)
    return f"did you mean {' or '.join(f'`{each}`' for each in similar)}?" if similar else None


def known_names(name: str, known: Iterable[str]) -> str:
    """The same question; if no name is similar, all known names.

    >>> known_names("chain", ["logs", "blocks"])
    'known are logs, blocks'
    """
    names = [*known]
    return did_you_mean(name, names) or f"known are {', '.join(names)}"
