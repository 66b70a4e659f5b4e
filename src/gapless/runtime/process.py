"""Where a process finds its ledger, and whose name its events carry."""

from __future__ import annotations

import getpass
import os
import socket

DEFAULT_LEDGER = "sqlite:///.gapless/ledger.db"
"""Where a process finds its ledger if nobody says otherwise."""


def actor() -> str:
    """Whose name stands beside an event."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
