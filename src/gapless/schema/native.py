"""The functions of the compiled core that work on rows, where it is installed.

They return what the Python functions beside their callers return, in less time and mostly without
Python's lock. `GAPLESS_NATIVE=off` rules them out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

_VARIABLE = "GAPLESS_NATIVE"
_MODULE = "gapless_native"


def compiled(name: str) -> Callable[..., Any] | None:
    """Return a function of the core; None if this process does not use one that has it."""
    if os.environ.get(_VARIABLE, "").strip().lower() == "off":
        return None
    try:
        module = import_module(_MODULE)
    except ImportError:
        return None
    found: Callable[..., Any] | None = getattr(module, name, None)
    return found
