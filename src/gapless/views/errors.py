"""An error that ends a command or a request."""

from __future__ import annotations

from msgspec import Struct


class ErrorFacts(Struct, frozen=True, kw_only=True):
    """What happened, and what the person can do; `code` names the kind for programs."""

    code: str
    message: str
    hint: str | None


class ErrorView(Struct, frozen=True):
    """The document that takes the place of the one that was asked for."""

    error: ErrorFacts
