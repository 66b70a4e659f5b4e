"""Separating our own options from the URL of a database."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode

HINT = (
    "write `postgresql://user:password@host:5432/database`, with special characters of the"
    " password percent-encoded (`%40`)"
)


def split(url: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Splits the options of these names off a URL, which the driver would pass to the server."""
    base, _, query = url.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    ours = {name: value for name, value in options if name in names}
    theirs = [(name, value) for name, value in options if name not in names]
    return (f"{base}?{urlencode(theirs)}" if theirs else base, ours) if ours else (url, ours)
