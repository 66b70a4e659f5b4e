"""One frozen configuration, from `gapless.toml`, the environment and the command line.

    ledger = "sqlite:///ledger.db"

    [endpoints.archive]
    url = "env:ETH_RPC"          # or the URL itself, where the file is kept secret
    network = "ethereum"
    rps = 25

    [sinks.warehouse]
    url = "warehouse.db"

    [fetch]
    workers = 16

The file is `gapless.toml` here or in the nearest folder above, or what `GAPLESS_CONFIG` names. An
environment variable wins over the file, a flag over both. A key that is not known is an error:
a typing mistake must not be a setting that does nothing.

URLs are secrets. They live here alone: the ledger stores the names of endpoints and sinks, and
each process resolves them by its own configuration.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gapless.core.errors import UsageError

T = TypeVar("T")

FILE = "gapless.toml"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a network's blocks are asked for."""

    url: str
    network: str | None = None
    rps: float | None = None

    def __repr__(self) -> str:
        return f"Endpoint(network={self.network!r}, rps={self.rps})"


class SinkTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where records are stored."""

    url: str

    def __repr__(self) -> str:
        return "SinkTarget()"


class Fetch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How blocks are fetched, unless a command says otherwise."""

    workers: int = 8
    batch_size: int = 100
    chunk_size: int = 1000
    max_concurrent: int = 4
    verify: str = "auto"
    retry: str = "backoff"
    start_height: int | None = None
    end_height: int | None = None


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that can be set outside of a command."""

    ledger: str | None = None
    endpoints: dict[str, Endpoint] = {}
    sinks: dict[str, SinkTarget] = {}
    fetch: Fetch = Fetch()
    metrics_port: int | None = None  # 0: any that is free
    metrics_host: str = "127.0.0.1"

    def endpoint(self, name: str) -> Endpoint:
        """An endpoint by its name, or by `env:VARIABLE`."""
        found = self.endpoints.get(name)
        if found is None and name.startswith("env:"):
            found = Endpoint(name)
        if found is None:
            raise _unknown("endpoint", name, self.endpoints)
        return msgspec.structs.replace(found, url=resolved(found.url))

    def urls(self) -> list[str]:
        """All URLs of this configuration, as far as their variables are set."""
        known = [each.url for each in self.endpoints.values()]
        known += [each.url for each in self.sinks.values()]
        found = []
        for url in known if self.ledger is None else [*known, self.ledger]:
            with suppress(UsageError):
                found.append(resolved(url))
        return found

    def sink(self, name: str) -> str:
        """The target of a sink by its name, or by `env:VARIABLE`."""
        if name.startswith("env:"):
            return resolved(name)
        try:
            return resolved(self.sinks[name].url)
        except KeyError:
            raise _unknown("sink", name, self.sinks) from None


def is_name(text: str) -> bool:
    """Whether this can be a name in the file; a host with its port or domain never is."""
    return _NAME.fullmatch(text) is not None


def resolved(value: str) -> str:
    """The value, or what the environment variable holds that `env:NAME` refers to."""
    if not value.startswith("env:"):
        return value
    variable = value.removeprefix("env:")
    if not (found := os.environ.get(variable)):
        raise UsageError(f"`{variable}` is not set", hint=f"set it: `export {variable}=…`")
    return found


# Environment variable -> where it goes. Those of the second group are known from other tools.
_NUMBERS = {
    "GAPLESS_WORKERS": "workers",
    "GAPLESS_BATCH_SIZE": "batch_size",
    "GAPLESS_CHUNK_SIZE": "chunk_size",
    "GAPLESS_MAX_CONCURRENT": "max_concurrent",
    "BACKFILL_WORKERS": "workers",
    "BACKFILL_BATCH_SIZE": "batch_size",
    "BACKFILL_START_HEIGHT": "start_height",
    "BACKFILL_END_HEIGHT": "end_height",
}
_WORDS = {"GAPLESS_VERIFY": "verify", "GAPLESS_RETRY": "retry"}


def load(environment: Mapping[str, str] | None = None, folder: Path | None = None) -> Config:
    """The configuration of this process."""
    environment = os.environ if environment is None else environment
    path = find(environment, folder or Path.cwd())
    config = Config() if path is None else anchored(parse(path.read_text(), path.name), path.parent)
    changed: dict[str, Any] = {}
    for variable, field in _NUMBERS.items():
        if text := environment.get(variable):
            changed.setdefault(field, _number(variable, text))
    for variable, field in _WORDS.items():
        if text := environment.get(variable):
            changed[field] = text
    fetch = checked(msgspec.structs.replace(config.fetch, **changed))
    ledger = environment.get("GAPLESS_LEDGER") or config.ledger
    port = environment.get("GAPLESS_METRICS_PORT")
    return msgspec.structs.replace(
        config,
        fetch=fetch,
        ledger=ledger,
        metrics_port=_port(_number("GAPLESS_METRICS_PORT", port) if port else config.metrics_port),
        metrics_host=environment.get("GAPLESS_METRICS_HOST") or config.metrics_host,
    )


def find(environment: Mapping[str, str], folder: Path) -> Path | None:
    """The configuration file, if there is one."""
    if named := environment.get("GAPLESS_CONFIG"):
        if not Path(named).is_file():
            raise UsageError(f"`GAPLESS_CONFIG` names no file: `{named}`")
        return Path(named)
    return next(
        (each / FILE for each in (folder, *folder.parents) if (each / FILE).is_file()), None
    )


def parse(text: str, name: str = FILE) -> Config:
    """The configuration that a file says."""
    try:
        config = msgspec.convert(tomllib.loads(text), Config)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"`{name}`: {error}", hint="`gapless init` writes an example") from None
    for kind, names in (("endpoint", config.endpoints), ("sink", config.sinks)):
        for each in names:
            if not is_name(each):
                raise UsageError(f"`{name}`: `{each}` is no name of a {kind}")
    return msgspec.structs.replace(config, fetch=checked(config.fetch))


def anchored(config: Config, folder: Path) -> Config:
    """The configuration with its relative paths below the folder of the file, not of the caller."""
    if folder == Path.cwd():
        return config
    sinks = {name: SinkTarget(_below(folder, sink.url)) for name, sink in config.sinks.items()}
    ledger = config.ledger and _below(folder, config.ledger)
    return msgspec.structs.replace(config, sinks=sinks, ledger=ledger)


def _below(folder: Path, target: str) -> str:
    scheme, separator, path = target.rpartition(":///")
    elsewhere = ":" in target and scheme != "sqlite"  # `env:NAME`, or a URL of another kind
    if path.startswith("/") or elsewhere:
        return target
    return f"{scheme}{separator}{folder}/{path}"


def checked(fetch: Fetch) -> Fetch:
    """The numbers, if they make sense."""
    for field in ("workers", "batch_size", "chunk_size", "max_concurrent"):
        if not 1 <= (value := getattr(fetch, field)) <= 1_000_000:
            raise UsageError(f"`{field}` is {value}", hint="it must be from 1 to 1,000,000")
    return fetch


def _port(port: int | None) -> int | None:
    if port is not None and not 0 <= port <= 65535:
        raise UsageError(f"`metrics_port` is {port}", hint="it must be from 0 to 65535")
    return port


def _number(variable: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text.strip()):
        raise UsageError(f"`{variable}` is `{text}`, which is not a whole number")
    return int(text)


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> UsageError:
    hint = f"known are {', '.join(sorted(known))}" if known else f"name it in `{FILE}`"
    if not _NAME.fullmatch(name):  # perhaps a URL without its scheme, which may hold a key
        return UsageError(
            f"what was given is neither a URL nor the name of a known {what}", hint=hint
        )
    return UsageError(f"there is no {what} `{name}` in the configuration", hint=hint)
