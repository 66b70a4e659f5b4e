"""The refusal that only the caller can handle: with another range, method, or time."""

from __future__ import annotations

from typing import NoReturn

from gapless.core.errors import SourceError
from gapless.providers.calls import Call, CallError
from gapless.providers.endpoint import Endpoint
from gapless.providers.provider_errors import Refusal


class Refused(SourceError):
    """An endpoint refuses a call, and repeating the same call would not help."""

    code = "refused"

    def __init__(self, message: str, refusal: Refusal, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.refusal = refusal


def raise_refused(endpoint: Endpoint, call: Call, error: CallError) -> NoReturn:
    """Raise the refusal for the caller to handle."""
    where = "" if call.height is None else f" at {call.height:,}"
    reason = endpoint.spec.redacted(error.message)[:300]
    message = f"endpoint `{endpoint.name}` refuses {call.method}{where}: {reason}"
    raise Refused(message, error.refusal)
