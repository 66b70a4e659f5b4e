"""Signals that end a process, and the children that it forks.

asyncio has signals written to a pipe that the event loop reads. A forked child inherits both the
handlers and the pipe: a signal that was sent to the child, as `multiprocessing.Pool` sends it to
its workers, would reach the event loop of the parent. And a child that has inherited to ignore
SIGTERM could not be ended. So children get Python's own handlers back, before any of their code
runs; until then, their signals wait.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 130
"""The exit code of a command that was stopped before its end, and can be resumed."""
_protecting = False
_thread = threading.local()


def protect_children() -> None:
    """From now on, children that this process forks do not share its handlers."""
    global _protecting  # noqa: PLW0603 - what happens at a fork concerns the whole process
    if not _protecting:
        _protecting = True
        os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_restore)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Meanwhile, SIGTERM interrupts as Ctrl-C does, so that whatever runs can clean up.

    A shell lets what it runs in the background ignore Ctrl-C; then SIGTERM would be ignored, too.
    """

    def interrupt(_number: int, _frame: object) -> None:
        signal.raise_signal(signal.SIGINT)

    protect_children()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is interrupt:  # else its echo is to be ignored
            signal.signal(signal.SIGTERM, before)


def _block() -> None:
    _thread.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _thread.mask)


def _restore() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _unblock()
