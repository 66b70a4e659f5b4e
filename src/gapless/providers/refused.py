"""The refusal that only the caller can react to: by another range, method, or moment."""

from __future__ import annotations

from gapless.core.errors import SourceError
from gapless.providers.provider_errors import Refusal


class Refused(SourceError):
    """An endpoint refuses a call, and asking again in the same way would not help."""

    code = "refused"

    def __init__(self, message: str, refusal: Refusal, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.refusal = refusal
