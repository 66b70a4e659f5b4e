"""The destination of an export: stdout, or a file that gets its name only when it is complete.

Write errors become `OutputError`. Errors from reading the stored rows pass through unchanged,
because they concern another file.
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
from gapless.system import sync_folder

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Output(FileIO):
    """An unbuffered file: an error is raised by the write that caused it."""

    shown: str

    def write(self, data: ReadableBuffer) -> int:
        """Write all of the data, or raise."""
        left = memoryview(data).cast("B")
        size = left.nbytes
        with _translate_errors(self.shown):
            while left:
                left = left[super().write(left) :]
        return size


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write. At the end, rename it durably; after an error, delete it."""
    refuse_unwritable(path)
    shown, unfinished = str(path), path.with_name(f"{path.name}.{os.getpid()}.part")
    with _translate_errors(shown):
        file = _Output(unfinished, "xb")
    file.shown = shown
    try:
        with file:
            yield cast(BinaryIO, file)
            with _translate_errors(shown):
                os.fsync(file.fileno())
        with _translate_errors(shown):
            unfinished.rename(path)
            sync_folder(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def stdout(descriptor: int) -> BinaryIO:
    """Return stdout as a binary file, which raises `BrokenPipeError` when the reader stops."""
    file = _Output(descriptor, "wb", closefd=False)
    file.shown = "stdout"
    return cast(BinaryIO, file)


def refuse_unwritable(path: Path) -> None:
    """Raise `UsageError` if the path exists, or if no file can be created there."""
    with _translate_errors(str(path)):
        if path.exists():
            raise UsageError(f"`{path}` already exists", hint="remove it, or name another file")
        if not path.parent.is_dir():
            raise UsageError(f"there is no folder `{path.parent}`", hint="create it first")
        if not os.access(path.parent, os.W_OK):
            raise UsageError(f"`{path.parent}` cannot be written to", hint="name another folder")


@contextmanager
def _translate_errors(shown: str) -> Iterator[None]:
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
