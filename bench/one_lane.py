"""The command line of Gapless without the priority lane, to measure what the lane is for.

    python -m bench.one_lane follow …

New blocks wait together with history for a slot, an endpoint, a thread and the sink.
"""

from __future__ import annotations

from contextvars import Token
from typing import cast

from gapless import lanes
from gapless.cli import follow, main
from gapless.following import spec
from gapless.lanes import Lane


class _Ordinary:
    """In place of the context variable: everything is in one lane."""

    def get(self) -> Lane:
        return Lane.ORDINARY

    def set(self, _lane: Lane) -> Token[Lane]:
        return cast("Token[Lane]", None)

    def reset(self, _token: Token[Lane]) -> None: ...


def without_priority() -> None:
    """Changes the code in this process: Gapless has no such option."""
    one_queue = {spec.BACKLOG: spec.SLOTS[spec.BACKLOG]}  # history may hold all of them
    for module, name, value in (
        (lanes, "_LANE", _Ordinary()),
        (spec, "PRIORITY", spec.BACKLOG),
        (follow, "SLOTS", one_queue),
    ):
        assert hasattr(module, name)
        setattr(module, name, value)


if __name__ == "__main__":
    without_priority()
    main()
