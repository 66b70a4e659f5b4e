"""A backfill's spec: the parameters of its job, a small JSON object.

It is kept in the ledger, in events and in what `--json` shows, for as long as the ledger lives. So
it must be small, and it must hold no secret: endpoints and sinks stand in it by their names, which
each process looks up for itself.

    >>> encode_spec({"verify": "auto", "network": "ethereum"})
    '{"network":"ethereum","verify":"auto"}'
"""

from __future__ import annotations

from typing import Any

import msgspec

from gapless.core.errors import UsageError
from gapless.core.redaction import redact

LARGEST_SPEC = 4096


def encode_spec(spec: dict[str, Any]) -> str:
    """The spec in its one form as text: equal specs have equal texts."""
    text = _faithful_text(spec)
    if text is None:
        raise UsageError(
            "the spec is not a JSON object that comes back as it was given",
            hint="use text, numbers, true, false, null, lists and objects",
        )
    size = len(text.encode())
    if size > LARGEST_SPEC:
        raise UsageError(
            f"the spec has {size:,} bytes, and at most {LARGEST_SPEC:,} are kept",
            hint="keep what is large elsewhere, and name it in the spec",
        )
    if redact(text) != text:
        raise UsageError(
            "the spec holds a URL that may hold a secret, and the ledger would keep it",
            hint="name the endpoint or sink instead, or write `env:VARIABLE`",
        )
    return text


def _faithful_text(spec: object) -> str | None:
    """The text, unless reading it again gives something else."""
    try:
        text = msgspec.json.encode(spec, order="sorted")
        back = msgspec.json.decode(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return text.decode() if isinstance(back, dict) and back == spec else None
