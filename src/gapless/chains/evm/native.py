"""Find the compiled core, and decide whether this process uses it.

The core is the package `gapless-native`. It does what `reading.read` does, several times faster,
and without Python's lock. It is used if it is installed and knows the same columns and checks as
this version; a core of another schema is never used. `GAPLESS_NATIVE=off` rules it out, and
`GAPLESS_NATIVE=require` makes its absence an error.
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
from gapless.core.errors import UsageError

VARIABLE = "GAPLESS_NATIVE"
MODULE = "gapless_native"


@dataclass(frozen=True)
class Core:
    """What reads answers in this process: the compiled core, or None if it is not used."""

    module: Any | None
    decoder: Decoder


@cache
def installed() -> Core:
    """Return the choice of this process, which reads its environment once."""
    return find(os.environ, import_module)


def find(environment: Mapping[str, str], load: Callable[[str], Any]) -> Core:
    """Return the core to use; raise `UsageError` if it is required and cannot be used."""
    wish = environment.get(VARIABLE, "").strip().lower()
    if wish not in ("", "off", "require"):
        raise UsageError(
            f"`{VARIABLE}` is `{wish}`",
            hint=f"set `{VARIABLE}` to `off` or `require`, or unset it",
        )
    if wish == "off":
        return _python(f"`{VARIABLE}` is `off`")
    try:
        module = load(MODULE)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == MODULE
        reason = "is not installed" if missing else f"cannot be loaded: {error}"
    else:
        unfit = _unfit(module)
        if unfit is None:
            version = getattr(module, "__version__", "")
            return Core(module, Decoder(f"compiled core {version}".strip(), is_parallel=True))
        reason = unfit
    if wish == "require":
        raise UsageError(
            f"`{VARIABLE}` is `require`, but the compiled core {reason}",
            hint=f"install the `gapless-native` that belongs to this version of Gapless,"
            f" or unset `{VARIABLE}`",
        )
    return _python(f"the compiled core {reason}")


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


def _python(reason: str) -> Core:
    return Core(None, Decoder(PYTHON.name, unused_core=reason))
