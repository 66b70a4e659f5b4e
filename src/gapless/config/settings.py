"""The settings outside of a command, each section as a frozen value."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from gapless.core.durations import parse_duration
from gapless.core.errors import UsageError
from gapless.core.retry import RetryKind, RetryPolicy
from gapless.core.similar import did_you_mean, known_names

FILE = "gapless.toml"
DEFAULT_SLOTS = 4
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_QUEUE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class EndpointSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An endpoint that serves a network's blocks."""

    url: str
    network: str | None = None
    rps: float | None = None
    ws: str | None = None  # for notices of new heads
    headers: dict[str, str] = {}  # sent with each request, such as an API key
    daily_calls: int | None = None  # that the plan of the provider includes

    def __repr__(self) -> str:
        return f"EndpointSettings(network={self.network!r}, rps={self.rps})"


class SinkTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where records are stored."""

    url: str

    def __repr__(self) -> str:
        return "SinkTarget()"


class Fetch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Defaults for fetching blocks, which a command can override."""

    workers: int = 8
    batch_size: int = 100
    chunk_size: int = 1000
    max_concurrent: int = 4
    verify: str = "auto"
    retry: str = "backoff"
    start_height: int | None = None
    end_height: int | None = None


class FollowSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A chain whose head is followed into a sink."""

    network: str
    rpc: tuple[str, ...] | str = ()  # names of endpoints; default: all of the network's
    to: str | None = None  # the name of a sink; default: the only one
    start: int | str | None = msgspec.field(name="from", default=None)  # a height or a date
    datasets: str | None = None
    verify: str | None = None

    @property
    def endpoints(self) -> tuple[str, ...]:
        return (self.rpc,) if isinstance(self.rpc, str) else self.rpc


class PublishSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A chain in a sink whose blocks are published on a stream."""

    url: str  # of the server
    network: str
    sink: str | None = None  # the name of a sink; default: the only one
    stream: str | None = None  # default: the network's name and `:events`
    start: int | None = msgspec.field(name="from", default=None)
    trim: int | None = None  # entries to keep; default: all

    def __repr__(self) -> str:
        return f"PublishSettings(network={self.network!r}, stream={self.stream!r})"


class Retry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of retry policies. Omitted ones keep their defaults.

    A duration is a number of seconds, or a string with a unit such as `"2m"`.
    """

    base: float | str | None = None
    max_delay: float | str | None = None
    jitter: float | None = None
    limit: int | None = None
    schedule: tuple[float | str, ...] | None = None

    def applied(self, policy: RetryPolicy) -> RetryPolicy:
        """Applies the settings that the policy uses."""
        return policy.numbered(
            base=None if self.base is None else _seconds(self.base),
            max_delay=None if self.max_delay is None else _seconds(self.max_delay),
            jitter=self.jitter,
            retries=self.limit,
            delays=None if self.schedule is None else tuple(map(_seconds, self.schedule)),
        )


class WorkerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Defaults for a worker, which its command can override."""

    slots: dict[str, int] | int | str | None = None  # in the format of `--slots`, or as a table


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that can be set outside of a command."""

    ledger: str | None = None
    queue: str = "default"
    endpoints: dict[str, EndpointSettings] = {}
    sinks: dict[str, SinkTarget] = {}
    follow: dict[str, FollowSettings] = {}
    publish: dict[str, PublishSettings] = {}
    fetch: Fetch = Fetch()
    retry: Retry = Retry()
    worker: WorkerSettings = WorkerSettings()
    metrics_port: int | None = None  # 0: any free port
    metrics_host: str = "127.0.0.1"

    @property
    def slots(self) -> str:
        """The slots of a worker, in the format of `--slots`."""
        match self.worker.slots:
            case None:
                return f"{self.queue}={DEFAULT_SLOTS}"
            case dict(table):
                return ",".join(f"{queue}={count}" for queue, count in table.items())
            case said:
                return str(said)

    def endpoint(self, name: str) -> EndpointSettings:
        """An endpoint by its name, or by `env:VARIABLE`."""
        found = self.endpoints.get(name)
        if found is None and name.startswith("env:"):
            found = EndpointSettings(name)
        if found is None:
            raise _unknown("endpoint", name, self.endpoints)
        ws = None if found.ws is None else resolved(found.ws)
        headers = {header: resolved(value) for header, value in found.headers.items()}
        return msgspec.structs.replace(found, url=resolved(found.url), ws=ws, headers=headers)

    def urls(self) -> list[str]:
        """All URLs of this configuration whose variables are set."""
        known = [each.url for each in self.endpoints.values()]
        known += [each.ws for each in self.endpoints.values() if each.ws is not None]
        known += [each.url for each in self.sinks.values()]
        known += [each.url for each in self.publish.values()]
        return _resolvable(known if self.ledger is None else [*known, self.ledger])

    def header_values(self) -> list[str]:
        """All values of headers in this configuration, which are secrets."""
        endpoints = self.endpoints.values()
        return _resolvable(value for each in endpoints for value in each.headers.values())

    def sink(self, name: str) -> str:
        """The target of a sink by its name, or by `env:VARIABLE`."""
        if name.startswith("env:"):
            return resolved(name)
        try:
            return resolved(self.sinks[name].url)
        except KeyError:
            raise _unknown("sink", name, self.sinks) from None

    def refuse_misspelled_sink(self, target: str) -> None:
        """Raises if this can only be a misspelled name of a sink."""
        if target in self.sinks or not is_name(target) or Path(target).exists():
            return
        if hint := did_you_mean(target, self.sinks):
            raise UsageError(f"no sink `{target}` in the configuration", hint=hint)


def is_name(text: str) -> bool:
    """Whether this can be a name in the file; a host with a port or domain cannot."""
    return _NAME.fullmatch(text) is not None


def _resolvable(values: Iterable[str]) -> list[str]:
    """The values, without those whose variables are not set."""
    found = []
    for value in values:
        with suppress(UsageError):
            found.append(resolved(value))
    return found


def resolved(value: str) -> str:
    """The value itself, or the environment variable that `env:NAME` refers to."""
    if not value.startswith("env:"):
        return value
    variable = value.removeprefix("env:")
    if not (found := os.environ.get(variable)):
        raise UsageError(f"`{variable}` is not set", hint=f"set it: `export {variable}=…`")
    return found


def sound(config: Config) -> Config:
    """Validates the values of a configuration."""
    checked(config.fetch)
    port = config.metrics_port
    if port is not None and not 0 <= port <= 65535:
        raise UsageError(f"`metrics_port` is {port}", hint="it must be from 0 to 65535")
    if not _QUEUE.fullmatch(config.queue):
        raise UsageError(
            f"`queue` is `{config.queue}`", hint="use letters, digits, `_`, `.` and `-`"
        )
    for name, endpoint in config.endpoints.items():
        if endpoint.daily_calls is not None and endpoint.daily_calls < 1:
            raise UsageError(f"endpoint `{name}`: `daily_calls` must be at least 1")
    for name, each in config.publish.items():
        if (each.start or 0) < 0 or (each.trim or 0) < 0:
            raise UsageError(f"a number of `[publish.{name}]` is negative")
    for kind in RetryKind:
        config.retry.applied(RetryPolicy.named(kind))
    return config


def checked(fetch: Fetch) -> Fetch:
    """Validates the numbers of a fetch."""
    for field in ("workers", "batch_size", "chunk_size", "max_concurrent"):
        if not 1 <= (value := getattr(fetch, field)) <= 1_000_000:
            raise UsageError(f"`{field}` is {value}", hint="it must be from 1 to 1,000,000")
    return fetch


def _seconds(value: float | str) -> float:
    return parse_duration(value) if isinstance(value, str) else value


def _unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    names = sorted(known)
    hint = known_names(name, names) if names else f"name it in `{FILE}`"
    if not is_name(name):  # perhaps a URL without a scheme, which may contain an API key
        return UsageError(
            f"the given value is neither a URL nor the name of a known {what}", hint=hint
        )
    return UsageError(f"no {what} `{name}` in the configuration", hint=hint)
