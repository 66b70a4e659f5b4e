"""The tools: how to make each do the job, and where its rows are afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from bench.peers.installing import HERE, HOME, node_packages, python_packages
from bench.runs import NETWORK

TABLES = ("blocks", "transactions", "logs")
CORES = os.cpu_count() or 1
CHUNKS = 2  # for each process


@dataclass(frozen=True)
class Job:
    """Blocks `first` to `last` of the node at `url`, into a folder."""

    url: str
    folder: Path
    first: int
    last: int


@dataclass(frozen=True)
class Output:
    """Where the rows of a table are, and the columns that identify a row."""

    files: str  # a pattern below the folder
    key: tuple[str, ...]


@dataclass(frozen=True)
class Tool:
    name: str
    version: str
    does: str  # in a few words
    commands: Callable[[Job], Sequence[Sequence[str]]]  # one after the other
    outputs: Mapping[str, Output]
    install: Callable[[], None] = lambda: None
    environment: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        name, comma, way = self.name.partition(",")
        return f"{name} {self.version}{comma}{way}"


def _gapless(job: Job) -> Sequence[Sequence[str]]:
    wish = ("fetch", NETWORK, f"{job.first}:{job.last}", "--rpc", job.url, "--verify", "auto")
    ledger = f"sqlite:///{job.folder / 'ledger.db'}"
    sink = ("--to", f"{job.folder / 'out'}/", "--datasets", ",".join(TABLES))
    return [(sys.executable, "-m", "gapless", *wish, *sink, "--ledger", ledger)]


def _gapless_on_all_cores(job: Job) -> Sequence[Sequence[str]]:
    # A process takes whole chunks: each needs several.
    size = max(1, (job.last - job.first + 1) // (CHUNKS * CORES))
    (command,) = _gapless(job)
    return [(*command, "--processes", str(CORES), "--chunk-size", str(size))]


def _cryo(job: Job) -> Sequence[Sequence[str]]:
    python, script = HOME / "cryo/bin/python", HERE / "cryo_job.py"
    return [
        (str(python), str(script), job.url, str(job.folder), str(job.first), str(job.last), *TABLES)
    ]


def _ethereum_etl(job: Job) -> Sequence[Sequence[str]]:
    etl, node = str(HOME / "etl/bin/ethereumetl"), ("--provider-uri", job.url)
    blocks, transactions, logs = (str(job.folder / f"{table}.csv") for table in TABLES)
    hashes, receipts = (str(job.folder / name) for name in ("hashes.txt", "receipts.csv"))
    heights = ("--start-block", str(job.first), "--end-block", str(job.last))
    both = ("--blocks-output", blocks, "--transactions-output", transactions)
    found = ("--receipts-output", receipts, "--logs-output", logs)
    return [
        (etl, "export_blocks_and_transactions", *heights, *node, *both),
        (etl, "extract_csv_column", "--column", "hash", "-i", transactions, "-o", hashes),
        (etl, "export_receipts_and_logs", "--transaction-hashes", hashes, *node, *found),
    ]


def _squid(job: Job) -> Sequence[Sequence[str]]:
    script = str(HERE / "squid/job.cjs")
    return [("node", script, job.url, str(job.folder), str(job.first), str(job.last))]


def _outputs(pattern: str, transaction: str, log: str, block: str = "number") -> dict[str, Output]:
    keys = ((block,), ("block_number", transaction), ("block_number", log))
    return {
        table: Output(pattern.format(table), key) for table, key in zip(TABLES, keys, strict=True)
    }


GAPLESS = Tool(
    "Gapless",
    version("gapless"),
    "one `fetch` to Parquet, `--verify auto`: all roots and hashes are proven",
    _gapless,
    _outputs("out/**/{}/*.parquet", "transaction_index", "log_index", "block_number"),
)
GAPLESS_ON_ALL_CORES = replace(
    GAPLESS,
    name="Gapless, all cores",
    does=f"the same with `--processes {CORES}`, and chunks small enough to share",
    commands=_gapless_on_all_cores,
)
CRYO = Tool(
    "cryo",
    "0.3.2",
    "one `freeze` of three datasets to Parquet, no checks",
    _cryo,
    _outputs("*__{}__*.parquet", "transaction_index", "log_index", "block_number"),
    partial(python_packages, "cryo"),
)
ETHEREUM_ETL = Tool(
    "ethereum-etl",
    "2.4.2",
    "`export_blocks_and_transactions`, then `export_receipts_and_logs`, to CSV, no checks",
    _ethereum_etl,
    _outputs("{}.csv", "transaction_index", "log_index"),
    partial(python_packages, "etl"),
)
SQUID = Tool(
    "squid",
    "1.27.3",
    "`@subsquid/evm-processor`, all blocks, transactions and logs, appended to CSV files",
    _squid,
    _outputs("{}.csv", "transactionIndex", "logIndex"),
    partial(node_packages, "squid"),
    {"NODE_PATH": str(HOME / "squid/node_modules")},
)
OURS = {tool.name: tool for tool in (GAPLESS, GAPLESS_ON_ALL_CORES)}
PEERS = {tool.name: tool for tool in (CRYO, ETHEREUM_ETL, SQUID)}
