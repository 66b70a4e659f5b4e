"""The URL of a stream: `redis://user:password@host:6379/0?stream=tron:events`.

>>> StreamUrl.parse("redis://:secret@cache.example:6380/2?stream=tron:events")
StreamUrl(shown='redis://cache.example:6380/2', stream='tron:events')
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from urllib.parse import parse_qsl, urlsplit

from gapless.core.errors import UsageError

_HINT = "write `redis://host:6379/0?stream=tron:events`; percent-encode special characters"
_STREAM = re.compile(r"[^\s{}]{1,200}|\S*\{[^\s{}]+\}\S*")


@dataclass(frozen=True)
class StreamUrl:
    """Where a server of Redis is, and perhaps the name of a stream there."""

    url: str = field(repr=False)  # without options, perhaps with a password
    shown: str
    stream: str | None = None

    @classmethod
    def parse(cls, text: str) -> StreamUrl:
        """Raises `UsageError` for a URL that is not of Redis; no message contains a part of it."""
        place, _, query = text.partition("?")
        try:
            parts = urlsplit(place)
            host, port = parts.hostname, parts.port or 6379
        except ValueError:
            raise UsageError("the URL of the stream is invalid", hint=_HINT) from None
        database = parts.path.removeprefix("/") or "0"
        if not is_stream_url(text) or not host or not database.isdecimal() or parts.fragment:
            raise UsageError("the URL of the stream is invalid", hint=_HINT)
        options = dict(parse_qsl(query, keep_blank_values=True))
        stream = options.pop("stream", None)
        if options:
            raise UsageError(
                "the URL of the stream has unknown options", hint="the only option is `stream`"
            )
        if stream is not None:
            require_stream_name(stream)
        return cls(place, f"{parts.scheme}://{host}:{port}/{database}", stream)


def require_stream_name(stream: str) -> None:
    if not _STREAM.fullmatch(stream):
        raise UsageError(
            f"`{stream}` cannot be the name of a stream",
            hint="write a name without spaces, such as `tron:events`",
        )


def require_client() -> None:
    """Raise `UsageError` unless the client library is installed, which is an extra."""
    if find_spec("redis") is None:
        raise UsageError(
            "publishing to Redis needs its client library",
            hint="install it: `pip install 'gapless[redis]'`",
        )


def is_stream_url(text: str) -> bool:
    """Whether this is the URL of a stream and not of a sink."""
    return text.partition("://")[0].lower() in ("redis", "rediss")
