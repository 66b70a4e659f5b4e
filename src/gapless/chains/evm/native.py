"""Whether this process reads the answers of EVM nodes with the compiled core.

The core does what `reading.read` does, several times faster, and without Python's lock. It must
follow the rules that `gapless.schema.native` compares, and know the columns and checks of this
version.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from gapless.chains.decoder import PYTHON, Decoder
from gapless.chains.evm.check_names import Check
from gapless.chains.evm.tables import TABLES
from gapless.schema import native


@dataclass(frozen=True)
class EvmCore:
    """What reads answers in this process: the compiled core, or None if it is not used."""

    module: Any | None
    decoder: Decoder


@cache
def installed() -> EvmCore:
    """Return the choice of this process, which reads its environment once."""
    return find(os.environ, import_module)


def find(environment: Mapping[str, str], load: Callable[[str], Any]) -> EvmCore:
    """Return the core to use; raise `UsageError` if it is required and cannot be used."""
    core = native.find(environment, load, _unfit)
    if core.module is None:
        return EvmCore(None, Decoder(PYTHON.name, unused_core=core.reason))
    version = getattr(core.module, "__version__", "")
    return EvmCore(core.module, Decoder(f"compiled core {version}".strip(), is_parallel=True))


def schema() -> tuple[str, ...]:
    """Return the columns of the tables that a core fills, which it must know exactly."""
    return tuple(
        f"{table.name}.{column.name} {column.kind.name.lower()}{'?' if column.nullable else ''}"
        for table in TABLES
        for column in table.columns
    )


def _unfit(module: Any) -> str | None:
    """Return why a core cannot be used with this version, if that is so."""
    if tuple(getattr(module, "SCHEMA", ())) != schema():
        return "was built for another schema"
    if tuple(getattr(module, "CHECKS", ())) != tuple(map(str, Check)):
        return "was built for other checks"
    return None
