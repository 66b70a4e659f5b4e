"""The default ledger of a process, and the actor that its events name."""

from __future__ import annotations

import getpass
import os
import socket

DEFAULT_LEDGER = "sqlite:///.gapless/ledger.db"
"""The ledger of a process, unless another one is given."""


def actor() -> str:
    """The name recorded with the events of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
