"""The sinks of this process that use one file or folder take turns to write, the head first.

Other processes are excluded by the locks of SQLite, DuckDB or the folder. These know no lanes, and
DuckDB's does not exclude a second sink of the same process.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from gapless.threads import LaneLock

_turns: defaultdict[Path, LaneLock] = defaultdict(LaneLock)


def turn_to_write(path: Path) -> LaneLock:
    """Returns the lock to hold while writing; a thread must not acquire it twice."""
    return _turns[path.resolve()]
