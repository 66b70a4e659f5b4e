"""One frozen configuration, from `gapless.toml`, the environment and the command line.

    ledger = "sqlite:///ledger.db"

    [endpoints.archive]
    url = "env:ETH_RPC"          # or the URL itself, if the file is kept secret
    ws = "env:ETH_WS"            # optional: its WebSocket
    network = "ethereum"
    rps = 25
    headers = { X-Api-Key = "env:ETH_KEY" }   # optional: sent with each request

    [sinks.warehouse]
    url = "warehouse.db"

    [fetch]
    workers = 16

The file is `gapless.toml` here or in the nearest folder above, or what `GAPLESS_CONFIG` names. An
environment variable overrides the file, and a flag overrides both. An unknown key is an error, so
that a typo is not silently ignored.

URLs and headers are secrets and are kept only here: the ledger stores the names of endpoints and
sinks, and each process resolves them through its own configuration.
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
    EndpointSettings,
    Fetch,
    FollowSettings,
    PublishSettings,
    Retry,
    SinkTarget,
    WorkerSettings,
    checked,
    is_name,
    resolved,
    sound,
)
from gapless.core.errors import UsageError

__all__ = [
    "FILE",
    "Config",
    "EndpointSettings",
    "Fetch",
    "FollowSettings",
    "PublishSettings",
    "Retry",
    "SinkTarget",
    "WorkerSettings",
    "checked",
    "is_name",
    "load",
    "parse",
    "resolved",
]


def load(environment: Mapping[str, str] | None = None, folder: Path | None = None) -> Config:
    """Loads the configuration of this process."""
    environment = os.environ if environment is None else environment
    path = find(environment, folder or _here())
    config = Config() if path is None else read(path)
    return sound(overridden(config, environment))


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError(
            "the current folder no longer exists", hint="change to another folder"
        ) from None
