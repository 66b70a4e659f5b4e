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
from collections.abc import Mapping
from pathlib import Path

from gapless.config.environment import overridden
from gapless.config.file import find, parse, read
from gapless.config.settings import (
    FILE,
    Config,
    Endpoint,
    Fetch,
    Retry,
    SinkTarget,
    Worker,
    checked,
    is_name,
    resolved,
    sound,
)
from gapless.core.errors import UsageError

__all__ = [
    "FILE",
    "Config",
    "Endpoint",
    "Fetch",
    "Retry",
    "SinkTarget",
    "Worker",
    "checked",
    "is_name",
    "load",
    "parse",
    "resolved",
]


def load(environment: Mapping[str, str] | None = None, folder: Path | None = None) -> Config:
    """The configuration of this process."""
    environment = os.environ if environment is None else environment
    path = find(environment, folder or _here())
    config = Config() if path is None else read(path)
    return sound(overridden(config, environment))


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current folder is gone", hint="change to another one") from None
