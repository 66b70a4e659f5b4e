"""The refusal that only the caller can handle: with another range, method, or time."""

from __future__ import annotations

from gapless.core.errors import SourceError
from gapless.providers.provider_errors import Refusal


class Refused(SourceError):
    """An endpoint refuses a call, and repeating the same call would not help."""

    code = "refused"

    def __init__(self, message: str, refusal: Refusal, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.refusal = refusal
