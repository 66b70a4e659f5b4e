"""Finds and reads the file `gapless.toml`. An unknown key is an error."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gapless.config.settings import (
    FILE,
    Config,
    EndpointSettings,
    Fetch,
    FollowSettings,
    PublishSettings,
    Retry,
    SinkTarget,
    WorkerSettings,
    is_name,
    sound,
)
from gapless.core.errors import UsageError
from gapless.core.remedies import WriteConfiguration
from gapless.core.similar import known_names

_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "fetch": Fetch,
    "retry": Retry,
    "worker": WorkerSettings,
}
_SECTIONS_BY_NAME: dict[str, type[msgspec.Struct]] = {
    "endpoints": EndpointSettings,
    "sinks": SinkTarget,
    "follow": FollowSettings,
    "publish": PublishSettings,
}


def find(environment: Mapping[str, str], folder: Path) -> Path | None:
    """The configuration file, if there is one."""
    if named := environment.get("GAPLESS_CONFIG"):
        if not Path(named).is_file():
            raise UsageError(f"`GAPLESS_CONFIG` does not name a file: `{named}`")
        return Path(named)
    return next(
        (each / FILE for each in (folder, *folder.parents) if (each / FILE).is_file()), None
    )


def read(path: Path) -> Config:
    """Reads the configuration from a file; errors name the file."""
    name = path.name if path.parent == Path.cwd() else str(path)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read `{name}`: {error}") from None
    return _anchored(parse(text, name), path.parent)


def parse(text: str, name: str = FILE) -> Config:
    """Parses the text of a configuration file."""
    try:
        given = tomllib.loads(text)
        _refuse_unknown_keys(given)
        config = msgspec.convert(given, Config)
        _refuse_wrong_names(config)
        return sound(config)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        reported = str(error).replace("`$.", "`")
        raise UsageError(f"`{name}`: {reported}", remedy=WriteConfiguration()) from None
    except UsageError as error:
        raise UsageError(f"`{name}`: {error}", hint=error.hint) from None


def _anchored(config: Config, folder: Path) -> Config:
    """Resolves relative paths against the folder of the file, not the current folder."""
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


def _refuse_unknown_keys(given: Mapping[str, Any]) -> None:
    for where, section, kind in _sections(given):
        known = [field.encode_name for field in msgspec.structs.fields(kind)]
        for key in section if isinstance(section, Mapping) else ():
            if key not in known:
                place = f" in `[{where}]`" if where else ""
                raise UsageError(f"unknown key `{key}`{place}", hint=known_names(key, known))


def _sections(given: Mapping[str, Any]) -> Iterator[tuple[str, Any, type[msgspec.Struct]]]:
    """Every section with its heading and its expected type."""
    yield "", given, Config
    for name, kind in _SECTIONS.items():
        yield name, given.get(name), kind
    for group, kind in _SECTIONS_BY_NAME.items():
        named = given.get(group)
        for name, section in named.items() if isinstance(named, Mapping) else ():
            yield f"{group}.{name}", section, kind


def _refuse_wrong_names(config: Config) -> None:
    named = (
        ("endpoint", config.endpoints),
        ("sink", config.sinks),
        ("follow", config.follow),
        ("publisher", config.publish),
    )
    for kind, names in named:
        for each in names:
            if not is_name(each):
                raise UsageError(
                    f"`{each}` is not a valid {kind} name",
                    hint="use up to 40 letters, digits, `-` and `_`",
                )
    for name, endpoint in config.endpoints.items():
        if endpoint.network is not None:
            _refuse_unknown_network(f"endpoint `{name}`", endpoint.network)
    for name, settings in config.publish.items():
        _refuse_unknown_network(f"publisher `{name}`", settings.network)


def _refuse_unknown_network(user: str, network: str) -> None:
    from gapless.chains import find_network

    try:
        find_network(network)
    except UsageError as error:
        raise UsageError(f"{error} (of the {user})", hint=error.hint) from None
