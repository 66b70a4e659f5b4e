"""Where an export goes: a file that is there under its name only when it is whole, or stdout.

Whatever the system says against writing becomes an `OutputError`. Errors of reading the stored rows
pass through as they are: they are about another file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from gapless.core.errors import OutputError, UsageError
from gapless.sinks.parquet.files import sync_folder

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Output(FileIO):
    """A file without a buffer of its own: an error is raised by the write that it is about."""

    shown: str

    def write(self, data: ReadableBuffer) -> int:
        """Writes all of it, or raises."""
        left = memoryview(data).cast("B")
        size = left.nbytes
        with _complaining(self.shown):
            while left:
                left = left[super().write(left) :]
        return size


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to. It gets its name at the end, durably; an error leaves nothing."""
    refuse_unwritable(path)
    shown, unfinished = str(path), path.with_name(f"{path.name}.{os.getpid()}.part")
    with _complaining(shown):
        file = _Output(unfinished, "xb")
    file.shown = shown
    try:
        with file:
            yield cast(BinaryIO, file)
            with _complaining(shown):
                os.fsync(file.fileno())
        with _complaining(shown):
            unfinished.rename(path)
            sync_folder(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def stdout(descriptor: int) -> BinaryIO:
    """The standard output, for bytes. A reader that has enough is a `BrokenPipeError`."""
    file = _Output(descriptor, "wb", closefd=False)
    file.shown = "stdout"
    return cast(BinaryIO, file)


def refuse_unwritable(path: Path) -> None:
    """Raises `UsageError` if no file can be made there, or something is there already."""
    with _complaining(str(path)):
        if path.exists():
            raise UsageError(f"`{path}` already exists", hint="remove it, or name another file")
        if not path.parent.is_dir():
            raise UsageError(f"there is no folder `{path.parent}`", hint="create it first")
        if not os.access(path.parent, os.W_OK):
            raise UsageError(f"`{path.parent}` cannot be written to", hint="name another folder")


@contextmanager
def _complaining(shown: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        room = "make room, or name a file on another disk" if error.errno in _NO_ROOM else None
        raise OutputError(
            f"`{shown}` cannot be written: {reason}", hint=room or "name another file"
        ) from error
