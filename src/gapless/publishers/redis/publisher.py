"""A stream of Redis, with the record of what was published on it.

Each step is one script, which Redis runs without interruption. The record is read again after every
error, and each new connection draws a new fence. So a step whose answer was lost is found in the
record, and a step that is still on its way from an earlier connection is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha1
from importlib import resources
from typing import Any

import msgspec
import redis.asyncio as client
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ClusterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from gapless.core.errors import (
    GaplessError,
    StreamRefused,
    StreamUnreachable,
    StreamUnusable,
)
from gapless.core.ranges import RangeSet, Span
from gapless.core.redaction import Secrets
from gapless.publishers.publisher import (
    Leader,
    Link,
    OutgoingBlock,
    PublishedBlock,
    Record,
    StreamState,
)
from gapless.publishers.redis.keys import StreamKeys
from gapless.publishers.redis.url import StreamUrl

PATIENCE = 5.0  # seconds for an answer
OLDEST = (6, 2)
_TRIMMED_AT_ONCE = 1000
_CODES = ("OOM", "MISCONF", "NOREPLICAS", "READONLY", "BUSY", "LOADING")
_TEMPORARY = (OutOfMemoryError, ReadOnlyError, ClusterDownError, TryAgainError, NoScriptError)
"""Refusals that may end without a change of the configuration: in scripts by their codes."""

Argument = bytes | int | str


class RedisPublisher:
    """One connection to a stream of Redis."""

    def __init__(self, connection: Any, keys: StreamKeys, url: StreamUrl, owner: str) -> None:
        self.keys = keys
        self._connection, self._url, self._owner = connection, url, owner
        self._fence, self._revision, self._lease = 0, 0, 0
        self._failed = False
        self._secrets = Secrets([url.url])

    @classmethod
    async def open(cls, url: StreamUrl, stream: str, owner: str) -> RedisPublisher:
        """Connect to a server; `owner` identifies this process among all publishers."""
        opened = cls(_connection(url), StreamKeys(stream), url, owner)
        try:
            facts = await opened._ask(opened._connection.info("server"))
            opened._require_version(facts["redis_version"])
            if facts.get("redis_mode") == "cluster":
                await opened.close()
                cluster = client.RedisCluster.from_url(url.url, **_OPTIONS)
                opened = cls(cluster, StreamKeys(stream, cluster=True), url, owner)
        except BaseException:
            await opened.close()
            raise
        return opened

    async def lead(self, seconds: float, *, force: bool = False) -> bool:
        self._lease = round(seconds * 1000)
        found = await self._run("lead", int(force))
        if not found:
            return False
        self._fence, self._revision = map(int, found)
        return True

    async def record(self) -> Record:
        return (await self.inspect()).record

    async def inspect(self) -> StreamState:
        facts, spans, links, now, entries, letters = await self._run("record")
        *_, owner, fence, until = facts
        leader = None
        if owner is not None:
            leader = Leader(owner.decode(), int(fence), (int(until) - int(now)) / 1000)
        return StreamState(
            _record(facts, spans, links),
            leader,
            entries,
            {
                key.decode(): msgspec.json.decode(value)["reason"]
                for key, value in zip(letters[::2], letters[1::2], strict=True)
            },
        )

    async def begin(self, sink: str, position: int, start: int) -> None:
        await self._step("begin", sink, position, start)

    async def publish(self, *groups: Sequence[OutgoingBlock], keep_from: int) -> None:
        steps = [_publication(group, keep_from) for group in groups]
        if len(steps) > 1 and not self.keys.cluster:
            await self._steps("publish", steps)
            return
        for arguments in steps:
            await self._step("publish", *arguments)

    async def retract(self, blocks: Sequence[PublishedBlock], position: int | None) -> None:
        pairs = ((each.height, _hex(each.hash)) for each in blocks)
        flat = (value for pair in pairs for value in pair)
        await self._step("retract", "" if position is None else position, *flat)

    async def set_aside(self, letters: Mapping[Span, str]) -> None:
        pairs = ((str(span), msgspec.json.encode({"reason": it})) for span, it in letters.items())
        await self._run("set_aside", *(value for pair in pairs for value in pair))

    async def trim(self, keep: int) -> int:
        return int(await self._run("trim", keep, _TRIMMED_AT_ONCE))

    async def resign(self) -> None:
        await self._run("resign")

    async def close(self) -> None:
        """Close the connection; errors do not matter, because nothing is expected from it."""
        with suppress(RedisError, OSError):
            await self._connection.aclose()

    async def _step(self, script: str, *arguments: Argument) -> None:
        """Run a script that changes the record."""
        await self._run(script, *arguments)
        self._revision += 1

    async def _steps(self, script: str, steps: Sequence[Sequence[Argument]]) -> None:
        """Run a script several times in one round trip.

        Each step names the revision that the one before leaves, so after a refusal all others are
        refused too. The first one brings the text, so that Redis knows the script for the others.
        """
        text, digest = _script(script)
        pipeline = self._connection.pipeline(transaction=False)
        for nth, arguments in enumerate(steps):
            run, name = (pipeline.evalsha, digest) if nth else (pipeline.eval, text)
            run(name, len(self.keys.all), *self._given(arguments, self._revision + nth))
        for reply in await self._ask(pipeline.execute(raise_on_error=False)):
            if isinstance(reply, RedisError):
                raise self._translated(reply)
        self._revision += len(steps)

    def _given(self, arguments: Sequence[Argument], revision: int) -> tuple[Argument, ...]:
        """The keys, and what each script expects before its own arguments."""
        return (*self.keys.all, self._owner, self._fence, revision, self._lease, *arguments)

    async def _run(self, script: str, *arguments: Argument) -> Any:
        """Run a script; Redis knows it by its digest from the second time on."""
        count, given = len(self.keys.all), self._given(arguments, self._revision)
        text, digest = _script(script)
        try:
            return await self._ask(self._connection.evalsha(digest, count, *given))
        except _Unknown:
            return await self._ask(self._connection.eval(text, count, *given))

    async def _ask(self, answer: Any) -> Any:
        """Wait for an answer, and translate the errors of the client.

        The client would connect again by itself, and the record would not be read.
        """
        if self._failed:
            answer.close()
            raise StreamUnreachable(f"the connection to `{self._url.shown}` has failed before")
        try:
            return await answer
        except NoScriptError:
            raise _Unknown from None
        except (ResponseError, AuthenticationError) as error:
            raise self._translated(error) from None
        except (TimeoutError, RedisError, OSError) as error:
            self._failed = True
            raise StreamUnreachable(
                f"`{self._url.shown}` does not answer: {self._clean(error)}",
                hint="is Redis running, and is the URL right?",
            ) from None

    def _translated(self, error: RedisError) -> GaplessError:
        text = self._clean(error)
        if text.startswith("REFUSED "):
            return StreamRefused(f"`{self.keys.stream}`: {text.removeprefix('REFUSED ')}")
        if isinstance(error, _TEMPORARY) or any(code in text for code in _CODES):
            return StreamUnreachable(f"`{self._url.shown}` cannot serve for now: {text}")
        return StreamUnusable(
            f"`{self._url.shown}` refuses: {text}",
            hint="check the password, and that the user may run scripts on the keys of the stream",
        )

    def _require_version(self, text: str) -> None:
        if tuple(map(int, text.split(".")[:2])) < OLDEST:
            wanted = ".".join(map(str, OLDEST))
            raise StreamUnusable(
                f"`{self._url.shown}` is Redis {text}", hint=f"use Redis {wanted} or newer"
            )

    def _clean(self, error: BaseException) -> str:
        return self._secrets.struck(str(error) or type(error).__name__)[:300]


class _Unknown(Exception):
    """Redis has not seen this script since it started."""


_OPTIONS: dict[str, Any] = {
    "socket_timeout": PATIENCE,
    "socket_connect_timeout": PATIENCE,
    "retry": Retry(NoBackoff(), 0),  # the caller reads the record before it tries again
}


def _connection(url: StreamUrl) -> Any:
    return client.Redis.from_url(url.url, max_connections=1, **_OPTIONS)


@cache
def _script(name: str) -> tuple[str, str]:
    """The text of a script and its digest."""
    folder = resources.files("gapless.publishers.redis")
    text = "\n".join((folder / f"{each}.lua").read_text() for each in ("common", name))
    return text, sha1(text.encode()).hexdigest()  # noqa: S324 - Redis knows scripts by it


def _publication(blocks: Sequence[OutgoingBlock], keep_from: int) -> list[Argument]:
    """What the script needs to publish a group of blocks."""
    arguments: list[Argument] = [keep_from, len(blocks)]
    for block in blocks:
        arguments += (block.height, _hex(block.link.hash), _hex(block.link.parent))
        arguments += (len(block.transactions), *block.transactions, block.summary)
    return arguments


def _record(facts: list[Any], spans: list[bytes], links: list[bytes]) -> Record:
    sink, position, start, *_ = facts
    return Record(
        None if sink is None else sink.decode(),
        int(position or 0),
        None if start is None else int(start),
        RangeSet(_span(each) for each in spans),
        dict(map(_link, links)),
    )


def _hex(value: bytes | None) -> str:
    return "" if value is None else f"0x{value.hex()}"


def _span(text: bytes) -> Span:
    first, _, last = text.partition(b"-")
    return Span(int(first), int(last))


def _link(text: bytes) -> tuple[int, Link]:
    height, hash_, parent = text.decode().split(" ")
    return int(height), Link(bytes.fromhex(hash_[2:]), bytes.fromhex(parent[2:]))
