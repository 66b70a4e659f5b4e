"""Find files of a sink that its manifest does not list.

A query over all files of the folder would read them too.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from gapless.core.ranges import Span
from gapless.sinks import Sink
from gapless.verification.report import Finding

_NAME = re.compile(r"(?:.*/)?(?P<table>[a-z_]+)/(?P<first>\d+)-(?P<last>\d+)\.")


async def stray_files(sink: Sink, whole: Span) -> list[Finding]:
    """Return one finding per file. If its name has no range, the finding covers all blocks."""
    found = []
    for name in await sink.strays():
        parts = _NAME.match(name)
        span = Span(int(parts["first"]), int(parts["last"])) if parts else whole
        dataset = parts["table"] if parts else PurePath(name).parent.name
        message = f"the file `{name}` is not listed in the manifest"
        found.append(Finding("stray", dataset, span, message, file=name))
    return found
