"""Find the compiled core, and decide whether this process uses it.

The core is the package `gapless-native`. Its functions return what the Python functions beside
their callers return, in less time and mostly without Python's lock. It is used if it is installed
and follows the rules of this version; a core of other rules is never used. `GAPLESS_NATIVE=off`
rules it out, and `GAPLESS_NATIVE=require` makes its absence an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from gapless.core.errors import UsageError

VARIABLE = "GAPLESS_NATIVE"
MODULE = "gapless_native"
RULES = "0.1.0+1"
"""The release, and a number; the core that belongs to this version names the same.

Raise the number, here and in `native/src/lib.rs`, whenever the functions of the core or what they
return change between two releases. Then a core that was built before is not used.
"""

Unfit: TypeAlias = Callable[[Any], "str | None"]
"""Says why a core cannot be used with this version, if that is so."""


@dataclass(frozen=True)
class Core:
    """The compiled core, or why this process does not use it."""

    module: Any | None
    reason: str = ""


def find(
    environment: Mapping[str, str], load: Callable[[str], Any], unfit: Unfit = lambda _: None
) -> Core:
    """Return the core to use; raise `UsageError` if it is required and cannot be used."""
    wish = environment.get(VARIABLE, "").strip().lower()
    if wish not in ("", "off", "require"):
        raise UsageError(
            f"`{VARIABLE}` is `{wish}`",
            hint=f"set `{VARIABLE}` to `off` or `require`, or unset it",
        )
    if wish == "off":
        return Core(None, f"`{VARIABLE}` is `off`")
    try:
        module = load(MODULE)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == MODULE
        reason = "is not installed" if missing else f"cannot be loaded: {error}"
    else:
        other = getattr(module, "RULES", None) != RULES
        found = "was built for another version" if other else unfit(module)
        if found is None:
            return Core(module)
        reason = found
    if wish == "require":
        raise UsageError(
            f"`{VARIABLE}` is `require`, but the compiled core {reason}",
            hint=f"install the `gapless-native` that belongs to this version of Gapless,"
            f" or unset `{VARIABLE}`",
        )
    return Core(None, f"the compiled core {reason}")


@cache
def installed() -> Core:
    """Return the choice of this process for rows of any table; it reads its environment once."""
    return find(os.environ, import_module)
