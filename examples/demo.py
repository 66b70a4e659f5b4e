"""A backfill that meets a crash and a damaged file, and ends complete: `make demo`.

Everything happens in a temporary folder, through the same commands that a person would type.
The last step counts what was booked, and the exit code says whether the counts are right.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import apsw

HERE = Path(__file__).resolve().parent
GAPLESS = Path(sys.executable).with_name("gapless")
FIRST, LAST = date(2022, 1, 1), date(2024, 12, 31)
DAMAGED = "2023-07-14"
BOOKED_BEFORE_THE_CRASH = 300


class Demo:
    """The folder of one demonstration, and the commands that run in it."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "ledger.db"
        self.receipts = folder / "receipts"
        self.log = folder / "worker.log"
        self.environment = {
            **os.environ,
            "GAPLESS_LEDGER": f"sqlite:///{self.ledger}",
            "DEMO_RECEIPTS": str(self.receipts),
        }

    def write_receipts(self) -> dict[str, int]:
        """One file a day, one of them cut off; returns what each day should come to."""
        self.receipts.mkdir()
        totals = {}
        for nth in range((LAST - FIRST).days + 1):
            day = (FIRST + timedelta(nth)).isoformat()
            sales = [100 + (nth * 37 + sale * 911) % 5000 for sale in range(5)]
            totals[day] = sum(sales)
            (self.receipts / f"{day}.json").write_text(json.dumps(sales))
        self.cut_off(self.receipts / f"{DAMAGED}.json")
        return totals

    def cut_off(self, file: Path) -> None:
        text = file.read_text()
        file.with_suffix(".backup").write_text(text)
        file.write_text(text[: len(text) // 2])

    def repair(self) -> None:
        file = self.receipts / f"{DAMAGED}.json"
        file.with_suffix(".backup").replace(file)

    def run(self, *arguments: str, exit_code: int = 0) -> None:
        """Runs a command of Gapless to its end, in the open."""
        say(f"$ gapless {' '.join(arguments)}")
        done = subprocess.run(
            [GAPLESS, *arguments], cwd=HERE, env=self.environment, check=False, timeout=60
        )
        claim(done.returncode == exit_code, f"exit code {done.returncode}, not {exit_code}")
        say()

    @contextmanager
    def worker(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker in the background; whatever happens, it does not outlive the demonstration."""
        say(f"$ gapless worker {' '.join(arguments)} &".replace("  ", " "))
        with self.log.open("w") as log:
            process = subprocess.Popen(
                [GAPLESS, "worker", *arguments], cwd=HERE, env=self.environment, stderr=log
            )
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Rows from the ledger's file, read by the same library that the workers use."""
        connection = apsw.Connection(str(self.ledger), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(connection.execute(text))
        except apsw.SQLError:  # the first worker has not made the table yet
            return []
        finally:
            connection.close()

    def days_booked(self) -> int:
        return len(self.query("SELECT day FROM booked"))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gapless-demo-") as folder:
        demo = Demo(Path(folder))
        totals = demo.write_receipts()
        say(f"{len(totals):,} days of a shop's receipts are to be booked, each exactly once.")
        say(f"The file of {DAMAGED} is damaged, and the first worker will be killed.")
        show_it_running(demo)
        show_what_failed(demo)
        prove(demo, totals)


def show_it_running(demo: Demo) -> None:
    title("1. Ask for a backfill")
    say(f"$ export GAPLESS_LEDGER={demo.environment['GAPLESS_LEDGER']}")
    days = f"{FIRST}:{LAST}"
    demo.run("backfill", "start", "--job", "demo_jobs:book", "--range", days, "--id", "shop",
             "--detach")  # fmt: skip

    title("2. Kill the worker in the middle of it")
    with demo.worker() as first:
        while demo.days_booked() < BOOKED_BEFORE_THE_CRASH:
            claim(first.poll() is None, "the first worker ended by itself")
            time.sleep(0.01)
        say(f"$ kill -9 {first.pid}")
        first.kill()
        first.wait()
    say(f"{demo.days_booked():,} days were booked by then.\n")
    demo.run("backfill", "show", "shop", "--limit", "5")

    title("3. Let a second worker take over")
    with demo.worker("--until-idle") as second:
        demo.run("backfill", "wait", "shop", exit_code=1)
        claim(second.wait(timeout=30) == 0, "the second worker failed")
    (started,) = (line for line in demo.log.read_text().splitlines() if "worker_started" in line)
    say("It freed the leases of the dead one when it started, and went on behind its last day:")
    say(f"  {started.partition('INFO ')[2]}")


def show_what_failed(demo: Demo) -> None:
    title("4. Look at what failed: one day, not the 30 of its chunk")
    demo.run("dead", "ls")

    title("5. Repair the file, and retry that day alone")
    say(f"$ mv {DAMAGED}.backup {DAMAGED}.json")
    demo.repair()
    demo.run("backfill", "retry-failed", "shop")
    demo.run("worker", "--until-idle")
    demo.run("backfill", "ls")


def prove(demo: Demo, totals: dict[str, int]) -> None:
    title("6. Prove that nothing is missing and nothing was done twice")
    demo.run("ledger", "check")
    rows = demo.query("SELECT day, cents, chunk, fence FROM booked")
    days = [day for day, *_ in rows]
    runs = {(chunk, fence) for _, _, chunk, fence in rows}
    shared = len(runs) - len({chunk for chunk, _ in runs})
    missing, twice = len(totals.keys() - set(days)), len(days) - len(set(days))
    wrong = sum(cents != totals[day] for day, cents, *_ in rows)
    say(f"Chunks begun by the killed worker and finished by the second: {shared}.")
    say(f"{len(totals):,} days asked for, {len(days):,} booked:")
    say(f"{missing} missing, {twice} twice, {wrong} wrong.")
    claim(len(days) == len(totals) and not (missing or twice or wrong), "that is not exactly once")
    claim(shared > 0, "the crash interrupted nothing")
    say("Gapless.")


def title(text: str) -> None:
    say(f"\n{text}\n{'-' * len(text)}")


def say(text: str = "") -> None:
    print(text, flush=True)


def claim(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"the demonstration failed: {otherwise}")


if __name__ == "__main__":
    main()
