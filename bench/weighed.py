"""Runs a command from a small process, and prints its seconds and its peak memory in bytes.

    python -IS bench/weighed.py COMMAND ARGUMENT…

A process inherits the peak of its parent, so a large process cannot measure its children. This one
imports next to nothing.
"""

import os
import sys
import time


def main() -> int:
    began = time.perf_counter()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    silent = [(os.POSIX_SPAWN_DUP2, nowhere, stream) for stream in (1, 2)]
    process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=silent)
    _, status, usage = os.wait4(process, 0)
    print(time.perf_counter() - began, usage.ru_maxrss * 1024)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
