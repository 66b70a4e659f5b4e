"""Keeping secrets out of everything that is shown or stored.

Endpoint URLs contain API keys, in the user part, path or query. So every URL in a text is reduced
to its scheme and host.

    >>> redact("timeout at https://user:pw@node.example:8545/v2/KEY?x=1, retrying")
    'timeout at https://node.example:8545/…, retrying'

A provider may repeat the key alone, and encoded. Code that knows the URL removes that too:

    >>> Secrets(["https://node.example/v2/Abc123Key"]).struck("no project abc123key")
    'no project …'

Both take time in proportion to the text, so cut a long text before you redact it.
"""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote, unquote_plus

STRUCK = "…"
_RUN = re.compile(
    r"://(\S*?)(?=(?:https?|wss?|postgres(?:ql)?|sqlite|duckdb|rediss?)://|\s|$)", re.IGNORECASE
)
_END = re.compile(r"[,'\"`)>]")  # characters that end a URL within a sentence
_PATH = re.compile(r"[/?#]")
_HOST = re.compile(r"[\w.-]*(?::\d*)?|\[[0-9a-fA-F:.]*\](?::\d*)?")
_PIECES = re.compile(r"[/?#&=;]")
_PARTS = re.compile(r"[:@,'\"\s]")
_REDIS = frozenset({"redis", "rediss"})
_DATABASES = frozenset({"postgres", "postgresql", "sqlite", "duckdb"}) | _REDIS
_LONG = 6  # secrets of at least this length are removed within words too
_STREAM = re.compile(r"(?<=[?&])stream=[^&]*")  # the name of a stream of Redis, which all may see
_PUBLIC = frozenset(
    {
        *("api", "apikey", "api_key", "api-key", "bc", "c", "eth", "ethereum", "evm", "ext"),
        *("http", "https", "jsonrpc", "json-rpc", "key", "mainnet", "node", "public", "rpc"),
        *("sepolia", "testnet", "token", "v1", "v2", "v3", "v4", "ws"),
    }
)
"""Words in paths and queries that are not secret, and that messages may contain."""


def redact(text: str) -> str:
    """The text with every URL reduced to its scheme and host."""
    return _RUN.sub(lambda found: f"://{_shown(found[1])}", text) if "://" in text else text


def _shown(run: str) -> str:
    """The part of a URL after its scheme that may be shown, and the text up to the next space."""
    path = _PATH.search(run)
    start = len(run) if path is None else path.start()
    if "@" in run[start:]:  # a password that contains a slash: its end is unknown
        return STRUCK + _after(run, run.rindex("@"))
    authority = run[:start].rpartition("@")[2]
    at = start - len(authority)
    end = _END.search(run, at)
    if end is not None and end.start() < start:
        start, path = end.start(), None
    host = run[at:start]
    shown = host if _HOST.fullmatch(host) else STRUCK
    return shown + (run[start:] if path is None else f"/{STRUCK}{_after(run, start)}")


def _after(run: str, at: int) -> str:
    """The text after the end of a URL."""
    end = _END.search(run, at)
    return "" if end is None else run[end.start() :]


_FILES = ("sqlite", "duckdb", "parquet")  # a local path, which contains no secret


class Secrets:
    """The secret parts of URLs and of headers, to be removed from texts in any common encoding."""

    def __init__(self, urls: Iterable[str], headers: Iterable[str] = ()) -> None:
        """`headers` are secret values of HTTP headers, such as `Bearer KEY`."""
        secrets = {secret for url in urls for secret in _secrets_of(url)}
        secrets |= {part for value in headers for part in (value, value.rpartition(" ")[2])}
        forms = {form for secret in secrets for form in _forms(secret)}
        ordered = sorted(forms, key=len, reverse=True)  # the longest match first
        self._pattern = re.compile("|".join(ordered), re.IGNORECASE) if forms else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def struck(self, text: str) -> str:
        """The text without these secrets, and with every URL reduced to its scheme and host."""
        return redact(self.struck_alone(text))

    def struck_alone(self, text: str) -> str:
        """The text without these secrets; for our own texts, in which a URL may be an example."""
        return text if self._pattern is None else self._pattern.sub(STRUCK, text)


def urls_in(texts: Iterable[str]) -> Iterator[str]:
    """The URLs in texts such as `--rpc=https://…`."""
    for text in texts:
        scheme, separator, rest = text.partition("://")
        if separator:
            yield f"{re.split(r'[^a-zA-Z0-9+.]', scheme)[-1]}://{rest}"


def _secrets_of(url: str) -> Iterator[str]:
    """The secret parts of a URL; for a database, these are the credentials and the options."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() in _FILES:
        return
    before, _, after = rest.rpartition("@")
    user, _, password = before.partition(":")
    web = scheme.lower() not in _DATABASES
    yield password
    if web or password:
        yield before
    if web or (scheme.lower() in _REDIS and not password):  # many write the password first
        yield user
    path = _PATH.search(after)
    left = "" if path is None else after[path.start() :]
    options = left if web else _STREAM.sub("", left).partition("?")[2]
    for piece in _PIECES.split(options):
        yield piece
        yield from _PARTS.split(piece)


def _forms(secret: str) -> Iterator[str]:
    """Patterns that match a secret, plain and in the encodings that others may use."""
    plain = {secret, unquote(secret), unquote_plus(secret)}
    for text in plain:
        if not text or text.lower() in _PUBLIC:
            continue
        words = {text, quote(text, safe=""), quote_plus(text), quote(text)}
        raw = text.encode()
        if len(text) < _LONG:
            encoded = {b64encode(raw), urlsafe_b64encode(raw), raw.hex().encode()}
            words |= {each.decode().rstrip("=") for each in encoded if len(text) > 1}
            yield from (rf"(?<!\w){re.escape(each)}(?!\w)" for each in words)
            continue
        yield from map(re.escape, {*words, raw.hex()})
        whole = raw[: len(raw) // 3 * 3]  # the encoding of the rest depends on what follows
        for each in (b64encode(whole), urlsafe_b64encode(whole)):
            yield rf"{re.escape(each.decode())}[\w+/=-]*"
