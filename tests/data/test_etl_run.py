"""Our exports equal, line for line, what ethereum-etl 2.4.2 writes for the same chain.

ethereum-etl really runs here, against a node that serves the chain. `make bench-peers` installs it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.peers.installing import HOME
from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.devnode import Chain, DevNode, Parameters, replayed, simulated
from gapless.export import layout_sets
from gapless.schema.arrow import Tables
from tests.data.recorded import CHAINS, with_chains
from tests.data.test_etl_files import exported

COMMAND = HOME / "etl/bin/ethereumetl"
TABLES = ("blocks", "transactions", "receipts", "logs")

pytestmark = pytest.mark.skipif(
    not COMMAND.exists(), reason="ethereum-etl is not installed; `make bench-peers` installs it"
)


@pytest.fixture(params=["simulated", pytest.param("execution-apis-54", marks=with_chains)])
def chain(request: pytest.FixtureRequest, tmp_path: Path) -> Chain:
    """A chain with withdrawals and blob transactions, and older blocks without them."""
    if request.param == "simulated":
        return simulated(Parameters(blocks=40, txs=6), tmp_path / "cache")
    return replayed(CHAINS / request.param)


@pytest.mark.parametrize("format_name", ["csv", "json"])
async def test_the_files_are_equal(chain: Chain, format_name: str, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    async with DevNode(chain) as node:
        await _export(node.url, chain.head, format_name, theirs)
    tables = _decoded(chain)
    assert any(tables["transactions"]["blob_versioned_hashes"].to_pylist())
    for table in TABLES:
        ours = exported(tables, table, format_name).splitlines()
        written = (theirs / f"{table}.{format_name}").read_text().splitlines()
        assert sorted(ours) == sorted(written)  # its order depends on its threads
        assert format_name == "json" or ours[0] == written[0]


async def test_the_version_that_runs_is_the_one_that_we_name() -> None:
    assert (await _run("--version")).split()[-1] == layout_sets()["ethereum-etl"].version


async def _export(url: str, head: int, format_name: str, folder: Path) -> None:
    blocks, transactions, receipts, logs = (
        str(folder / f"{table}.{format_name}") for table in TABLES
    )
    hashes = str(folder / "hashes.txt")
    await _run(
        *("export_blocks_and_transactions", "--provider-uri", url, "--end-block", str(head)),
        *("--blocks-output", blocks, "--transactions-output", transactions),
    )
    await _run("extract_field", "--field", "hash", "--input", transactions, "--output", hashes)
    await _run(
        *("export_receipts_and_logs", "--provider-uri", url, "--transaction-hashes", hashes),
        *("--receipts-output", receipts, "--logs-output", logs),
    )


async def _run(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(str(COMMAND), *arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, complaint = await process.communicate()
    assert process.returncode == 0, complaint.decode()
    return said.decode()


def _decoded(chain: Chain) -> Tables:
    heights = range(chain.head + 1)
    blocks = [parse_block(chain.block(height)) for height in heights]
    receipts = [parse_receipts(chain.receipts(height)) for height in heights]
    return decode_blocks(blocks, receipts, chain.chain_id)
