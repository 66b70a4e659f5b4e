"""Arrow's functions on columns, imported at the first use.

`pyarrow.compute` builds hundreds of functions when it is imported, which takes a tenth of the time
of a small fetch. With the compiled core, such a fetch uses none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("pyarrow.compute"), name)
