"""Files of a sink that nothing lists: whoever reads the folder by pattern reads them too."""

from __future__ import annotations

import re
from pathlib import PurePath

from gapless.core.ranges import Span
from gapless.sinks import Sink
from gapless.verification.report import Finding

_NAME = re.compile(r"(?:.*/)?(?P<table>[a-z_]+)/(?P<first>\d+)-(?P<last>\d+)\.")


async def stray_files(sink: Sink, whole: Span) -> list[Finding]:
    """One for each such file; a name that does not tell of which blocks may be of any."""
    found = []
    for name in await sink.strays():
        parts = _NAME.match(name)
        span = Span(int(parts["first"]), int(parts["last"])) if parts else whole
        dataset = parts["table"] if parts else PurePath(name).parent.name
        words = f"the file `{name}` is not listed in the manifest"
        found.append(Finding("stray", dataset, span, words, file=name))
    return found
