"""A backfill's spec: the parameters of its job, a small JSON object.

It is stored in the ledger and in events, and shown as JSON, for the lifetime of the ledger. So it
must be small and must not contain secrets: it refers to endpoints and sinks by name, and each
process resolves the names from its own configuration.

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
    """The canonical text of a spec: equal specs have equal texts."""
    text = _faithful_text(spec)
    if text is None:
        raise UsageError(
            "the spec is not an object that JSON can represent exactly",
            hint="use text, numbers, true, false, null, lists and objects",
        )
    size = len(text.encode())
    if size > LARGEST_SPEC:
        raise UsageError(
            f"the spec has {size:,} bytes; the limit is {LARGEST_SPEC:,}",
            hint="store large values elsewhere, and refer to them by name",
        )
    if redact(text) != text:
        raise UsageError(
            "the spec contains a URL that may contain a secret, and the ledger would store it",
            hint="name the endpoint or sink instead, or write `env:VARIABLE`",
        )
    return text


def _faithful_text(spec: object) -> str | None:
    """The text, or None if decoding it does not give the same spec."""
    try:
        text = msgspec.json.encode(spec, order="sorted")
        back = msgspec.json.decode(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return text.decode() if isinstance(back, dict) and back == spec else None
