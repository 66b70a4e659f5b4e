"""The file that an export becomes: there under its name only when it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gapless.core.errors import UsageError
from gapless.sinks.parquet.files import sync_folder


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to. It gets its name at the end, durably; an error leaves nothing."""
    refuse_unwritable(path)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(path.parent)


def refuse_unwritable(path: Path) -> None:
    """Raises `UsageError` if no file can be made there, or something is there already."""
    if path.exists():
        raise UsageError(f"`{path}` is there already", hint="remove it, or name another file")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder `{path.parent}`", hint="make it first")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"`{path.parent}` cannot be written to", hint="name another folder")
