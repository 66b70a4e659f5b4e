"""Fetches 5,000 blocks from an unreliable node, through a crash, and proves them: `make demo`.

Then it adds two wallets, whose history is read from the stored blocks, and compares balances with
a node. Everything happens in a temporary folder, with the same commands that a user would type. The
last step counts rows and balances, and the exit code says whether they are correct.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

GAPLESS = Path(sys.executable).with_name("gapless")
BLOCKS = 5000
LAST = BLOCKS - 1
PAYER = "0x8D40F0a088f26D11E7CC11aE0e2eF3E8ae1e232a"
SAVER = "0xFE375f06B7A202a9Ca53470c051DE1983D2dD15b"
"""It signs nothing, and had nothing in the first block."""
ODD = {"ETH", "RBS", "TAX", "USD\u0421"}
"""Balances that no history explains: coins also move in inner calls, one token rebases, one takes a
fee, and one reports transfers that never happened."""
FAULTS = (
    "500=0.02,drop=0.02,malformed=0.02,null=0.002,empty=0.002,truncated=0.002,wrong-block=0.002"
)
QUERIES = {
    "The busiest blocks": """
        SELECT block_number, block_time, transaction_count, log_count
        FROM blocks_hex ORDER BY log_count DESC LIMIT 3""",
    "Who spent the most gas": """
        SELECT from_address, count(*) AS transactions, sum(gas_used) AS gas
        FROM transactions_hex GROUP BY from_address ORDER BY gas DESC LIMIT 3""",
    "Which events were emitted most": """
        SELECT topic0, count(*) AS logs, count(DISTINCT address) AS contracts
        FROM logs_hex GROUP BY topic0 ORDER BY logs DESC LIMIT 3""",
}


class Demo:
    """The folder of one demonstration, and the commands that run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sink = folder / "chain.db"
        self.environment = {**os.environ, "GAPLESS_LEDGER": f"sqlite:///{folder}/ledger.db"}

    @contextmanager
    def node(self, *more: str) -> Iterator[str]:
        """A simulated chain behind JSON-RPC."""
        head = LAST + 64  # so that the last block of the demonstration is the last final one
        arguments = ["devnode", "--economy", "--port", "0", "--blocks", str(head), *more]
        say(f"$ gapless {' '.join(arguments)} &")
        with self.started(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as node:
            assert node.stdout is not None
            yield node.stdout.readline().decode().strip()

    @contextmanager
    def started(self, arguments: list[str], **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
        """Starts a command in the background, and ends it with the demonstration."""
        process = subprocess.Popen(
            [GAPLESS, *arguments], cwd=self.folder, env=self.environment, **streams
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def run(self, *arguments: str) -> None:
        """Runs a Gapless command to its end and shows its output."""
        say(f"$ gapless {' '.join(arguments)}")
        done = subprocess.run(
            [GAPLESS, *arguments], cwd=self.folder, env=self.environment, check=False, timeout=120
        )
        claim(done.returncode == 0, f"exit code {done.returncode}")
        say()

    def answer(self, *arguments: str) -> Any:
        """What a Gapless command answers to a program."""
        done = subprocess.run(
            [GAPLESS, *arguments, "--json"],
            cwd=self.folder,
            env=self.environment,
            check=True,
            capture_output=True,
        )
        return json.loads(done.stdout)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(self.sink), flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(10_000)
        try:
            cursor = connection.execute(text)
            return [tuple(column[0] for column in cursor.get_description()), *cursor]
        except (apsw.SQLError, apsw.ExecutionCompleteError):  # the tables do not exist yet
            return []
        finally:
            connection.close()

    def stored(self) -> int:
        if not self.sink.exists():
            return 0
        rows = self.query("SELECT count(*) FROM blocks")
        return int(rows[1][0]) if rows else 0


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gapless-demo-") as folder:
        demo = Demo(Path(folder))
        title("1. Start a node that fails and returns wrong data")
        with demo.node("--faults", FAULTS) as url:
            fetch = ["fetch", "custom", f"0:+{BLOCKS}", "--rpc", url, "--to", "chain.db"]
            title("2. Fetch 5,000 blocks, and kill the fetch in the middle")
            kill_in_the_middle(demo, fetch)
            title("3. Run the same command again to resume")
            demo.run(*fetch)
            title("4. Run it once more: nothing is left to do")
            demo.run(*fetch)
        title("5. Prove it from the stored data alone")
        demo.run("verify", "chain.db", "--deep")
        title("6. Query the data")
        for question, text in QUERIES.items():
            say(f"{question}:")
            show(demo.query(text))
        title("7. Add two wallets: their history is read from the stored blocks")
        with demo.node() as url:
            node = ["--rpc", url]
            add = ["wallet", "add", PAYER, SAVER, "--network", "custom", *node, "--to", "chain.db"]
            demo.run(*add)
            demo.run("wallet", "history", PAYER, "--limit", "8")
            title("8. Compare balances with a node")
            demo.run("wallet", "balances", SAVER, *node)
            balances = demo.answer("wallet", "balances", SAVER, *node)
        prove(demo)
        reconcile(balances)
        say("Gapless.")


def kill_in_the_middle(demo: Demo, fetch: list[str]) -> None:
    say(f"$ gapless {' '.join(fetch)} &")
    with demo.started(fetch) as first:
        while demo.stored() < BLOCKS // 3:
            claim(first.poll() is None, "the fetch ended by itself")
            time.sleep(0.05)
        first.kill()
        first.wait()
    say(f"\n$ kill -9 {first.pid}\n{demo.stored():,} blocks were stored by then.")


def prove(demo: Demo) -> None:
    (_, (blocks, heights)) = demo.query("SELECT count(*), count(DISTINCT block_number) FROM blocks")
    (_, (promised, logs)) = demo.query(
        "SELECT sum(log_count), (SELECT count(*) FROM logs) FROM blocks"
    )
    say(f"{BLOCKS:,} blocks requested, {blocks:,} stored, {blocks - heights} duplicates;")
    say(f"{promised:,} logs expected by their blocks, {logs:,} stored.")
    claim(
        blocks == heights == BLOCKS and promised == logs, "blocks or logs are missing or duplicated"
    )


def reconcile(balances: list[dict[str, Any]]) -> None:
    known = [each for each in balances if each["on_chain"] is not None]
    equal = [each for each in known if each["unexplained_raw"] == "0"]
    odd = [each["symbol"] for each in known if each not in equal]
    say(f"{len(equal)} balances equal to those of the node; partly unexplained: {', '.join(odd)}.")
    claim(bool(equal) and {*odd} == ODD, "a balance is not that of the node")


def show(rows: list[tuple[Any, ...]]) -> None:
    width = shutil.get_terminal_size().columns
    texts = [[str(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        line = "  ".join(text.ljust(size) for text, size in zip(row, widths, strict=True))
        say(f"  {line.rstrip()}"[:width])
    say()


def title(text: str) -> None:
    say(f"\n{text}\n{'-' * len(text)}")


def say(text: str = "") -> None:
    print(text, flush=True)


def claim(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"the demonstration failed: {otherwise}")


if __name__ == "__main__":
    main()
