"""Files of a sink that nothing lists: whoever reads the folder by pattern reads them too."""

from __future__ import annotations

import re

from gapless.core.ranges import Span
from gapless.sinks import Sink
from gapless.verify.report import Finding

_NAME = re.compile(r"(?:.*/)?(?P<table>[a-z_]+)/(?P<first>\d+)-(?P<last>\d+)\.")


async def stray_files(sink: Sink) -> list[Finding]:
    found = []
    for name in await sink.strays():
        parts = _NAME.match(name)
        if parts is not None:
            span = Span(int(parts["first"]), int(parts["last"]))
            words = f"the file `{name}` is not listed in the manifest"
            found.append(Finding("stray", parts["table"], span, words))
    return found
