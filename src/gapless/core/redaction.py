"""Keeping secrets out of whatever is shown or stored.

Endpoint URLs hold API keys, in user part, path or query: of any URL within a text, only the
scheme and the host remain.

    >>> redact("timeout at https://user:pw@node.example:8545/v2/KEY?x=1, retrying")
    'timeout at https://node.example:8545/…, retrying'
"""

from __future__ import annotations

import re

_END = r"\s,'\"`)>"  # what a URL within a sentence stops at
_URL = re.compile(
    rf"\b([a-z][a-z0-9+.-]*)://(?:[^\s/@]*@)?([^/?#@{_END}]*)([/?#][^{_END}]*)?", re.IGNORECASE
)


def redact(text: str) -> str:
    """The text with every URL in it cut down to scheme and host."""
    return _URL.sub(lambda url: f"{url[1]}://{url[2]}{'/…' if url[3] else ''}", text)
