"""What it costs to prove a block, next to the unavoidable part: hashing its trie nodes.

Run alone (`python -m bench.checks`): a real mainnet block of 655 KB with 157 transactions and 408
logs, from the data beside the project. Times are processor time, the best of many rounds.
"""

from __future__ import annotations

import gzip
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.report import Row, at_most, head, line
from gapless.chains import Level
from gapless.chains.evm.checks import consistency, proofs
from gapless.chains.evm.checks.block_under_check import block_under_check
from gapless.chains.evm.checks.check import check_block
from gapless.chains.evm.codec import bloom, encoding
from gapless.chains.evm.codec.header import header_hash
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.codec.trie import ordered_root
from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from tests.evm import checks_of, evm_network

HEIGHT = 18_500_000
BLOCKS = Path(__file__).parents[2] / "shared" / "data" / "blocks" / "ethereum"
ROUNDS = 200


def measure() -> Iterator[Row]:
    raw, raw_receipts = (
        gzip.decompress((BLOCKS / f"{HEIGHT}.{kind}.json.gz").read_bytes())
        for kind in ("block", "receipts")
    )
    block, receipts = parse_block(raw), parse_receipts(raw_receipts)
    ethereum = evm_network("ethereum")
    subject = block_under_check(block, receipts, ethereum, HEIGHT)
    encoded = [encoding.receipt(each) for each in receipts]

    def blooms_of_a_first_block() -> None:
        bloom._bits_of.cache_clear()
        consistency.receipt_blooms(subject)

    hashing = best(lambda: [keccak(each) for each in encoded])
    yield Row("parse block and receipts", shown(best(lambda: parse(raw, raw_receipts))))
    yield Row("hash the encoded receipts", shown(hashing))
    yield Row("header hash", shown(best(lambda: header_hash(block))))
    yield Row("encode the receipts", shown(best(lambda: list(map(encoding.receipt, receipts)))))
    yield Row("root of the encoded receipts", shown(best(lambda: ordered_root(encoded))))
    whole = best(lambda: proofs.receipts(subject))
    yield Row("receipts root, by hashing alone", shown(whole), whole / hashing, at_most(5))
    yield Row("blooms, not cached", shown(best(blooms_of_a_first_block)))
    yield Row("blooms, cached", shown(best(lambda: consistency.receipt_blooms(subject))))
    yield Row("transactions root and hashes", shown(best(lambda: proofs.transactions(subject))))
    yield Row("withdrawals root", shown(best(lambda: proofs.withdrawals(subject))))
    for level in Level:
        yield Row(f"level `{level}`", shown(best(at_level(level, raw, raw_receipts))))


def parse(raw: bytes, raw_receipts: bytes) -> None:
    parse_block(raw)
    parse_receipts(raw_receipts)


def at_level(level: Level, raw: bytes, raw_receipts: bytes) -> Callable[[], object]:
    block, receipts, ethereum = parse_block(raw), parse_receipts(raw_receipts), evm_network(1)
    return lambda: check_block(block, receipts, ethereum, checks_of(level), HEIGHT)


def best(work: Callable[[], object]) -> float:
    """Seconds of processor time of the fastest round."""
    quickest = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        quickest = min(quickest, time.process_time() - started)
    return quickest


def shown(seconds: float) -> str:
    return f"{seconds * 1000:.3f} ms"


def main() -> int:
    if not BLOCKS.exists():
        print("no recorded blocks found")
        return 0
    print(head())
    rows = list(measure())
    for row in rows:
        print(line(row.cells))
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
