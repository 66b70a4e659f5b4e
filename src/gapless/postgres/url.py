"""The URL of a database, apart from the options in it that are ours."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode

HINT = (
    "write `postgresql://user:password@host:5432/database`, with what is special in the password"
    " as `%40`"
)


def split(url: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """The URL without the options of these names, which the driver would send on, and those."""
    base, _, query = url.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    ours = {name: value for name, value in options if name in names}
    theirs = [(name, value) for name, value in options if name not in names]
    return (f"{base}?{urlencode(theirs)}" if theirs else base, ours) if ours else (url, ours)
