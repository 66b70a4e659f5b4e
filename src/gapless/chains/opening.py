"""Open sinks that can hold the tables of every chain family."""

from __future__ import annotations

from gapless import sinks
from gapless.chains import schema
from gapless.sinks import Access, Sink
from gapless.system import SYSTEM, System


async def open_sink(
    target: str, access: Access = Access.CREATE, *, system: System = SYSTEM
) -> Sink:
    """Open the sink that a target names."""
    return await sinks.open_sink(target, schema(), access, system=system)
