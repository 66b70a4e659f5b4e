"""How many examples a property is tried with: few in `make test`, many in `make soak`.

`GAPLESS_EXAMPLES=3000 pytest tests/stateful` tries each property in there 3,000 times.
"""

from __future__ import annotations

import os

EXAMPLES = int(os.environ.get("GAPLESS_EXAMPLES", "0"))


def examples(usual: int) -> int:
    return EXAMPLES or usual
