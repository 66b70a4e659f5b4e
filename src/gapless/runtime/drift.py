"""Drift: the job's partitions have changed since a filter was resolved.

A selection is fixed when its backfill is created. If the same filter would select something else
now, that is reported, but the selection does not change.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gapless.core.errors import BadSelector, Unreadable
from gapless.core.partitions import Scheme
from gapless.core.selector import Filter, Selection, resolve


def drift_of(selector: dict[str, Any], selection: Selection, scheme: Scheme) -> str | None:
    """Describes how the filter's result has changed; None if it has not, or is not a filter."""
    if selector.get("kind") != "filter":
        return None
    try:
        today = resolve(msgspec.convert(selector, Filter), scheme)
    except msgspec.ValidationError as error:
        raise Unreadable(f"the selector cannot be read: {error}") from error
    except BadSelector:
        return "the filter selects nothing any more"
    if today.digest == selection.digest:
        return None
    then, now = set(selection.all_keys()), set(today.all_keys())
    return f"the filter would now select {len(now - then)} more and {len(then - now)} fewer"
