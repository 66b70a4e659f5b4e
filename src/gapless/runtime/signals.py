"""Signal handling for a process and the children that it forks.

asyncio writes signals to a pipe that the event loop reads. A forked child inherits both the
handlers and the pipe: a signal sent to the child, as `multiprocessing.Pool` does with its workers,
would reach the event loop of the parent. And a child that inherited an ignored SIGTERM could not be
terminated. So children get Python's default handlers back before any of their code runs; until
then, their signals are blocked.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 130
"""The exit code of a command that was interrupted and can be resumed."""
_protecting = False
_thread = threading.local()


def protect_children() -> None:
    """Keeps children that this process forks from inheriting its handlers."""
    global _protecting  # noqa: PLW0603 - fork hooks apply to the whole process
    if not _protecting:
        _protecting = True
        os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_restore)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Makes SIGTERM interrupt like Ctrl-C, so that running code can clean up.

    Shells make background processes ignore Ctrl-C; then SIGTERM would be ignored, too.
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
        if signal.getsignal(signal.SIGTERM) is interrupt:  # otherwise ignore the duplicate
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
