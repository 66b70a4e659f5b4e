"""A client that does nothing with the answers: how fast the benchmark node can be.

    python -m bench.null_client --workload small --batch 100 --connections 8

starts the node, fetches every block and its receipts over raw sockets, reads only their length, and
prints blocks per second. A measurement above 0.7 of that rate measures the node.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from bench.node_process import node
from bench.rendered import WORKLOADS, Workload

_READ = 1 << 20


async def ceiling(url: str, blocks: range, *, batch: int, connections: int) -> float:
    """Blocks per second, each with its receipts, in batches of this many blocks."""
    waiting = _requests(blocks, batch)
    started = time.perf_counter()
    await asyncio.gather(*(_drain(url, waiting) for _ in range(connections)))
    return len(blocks) / (time.perf_counter() - started)


def _requests(blocks: range, batch: int) -> Iterator[bytes]:
    for at in range(0, len(blocks), batch):
        calls = [
            f'{{"jsonrpc":"2.0","id":{2 * height + nth},"method":"{method}","params":[{params}]}}'
            for height in blocks[at : at + batch]
            for nth, (method, params) in enumerate(
                (
                    ("eth_getBlockByNumber", f'"{height:#x}",true'),
                    ("eth_getBlockReceipts", f'"{height:#x}"'),
                )
            )
        ]
        body = f"[{','.join(calls)}]"
        yield f"POST / HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


async def _drain(url: str, requests: Iterator[bytes]) -> None:
    """Sends one request after the other and skips over the answers."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=_READ)
    for request in requests:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"the node answers {head.splitlines()[0]!r}")
        left = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
        while left:
            read = await reader.read(min(left, _READ))
            if not read:
                raise RuntimeError("the node has gone")
            left -= len(read)
    writer.close()


async def measure(workload: Workload, batch: int, connections: int) -> None:
    """Starts the node in another process, and prints the figures of both."""
    heights = range(1, workload.blocks + 1)
    async with node(workload) as running:
        before = time.process_time()
        rate = await ceiling(running.url, heights, batch=batch, connections=connections)
        print(f"ceiling={rate:.0f} blocks/s, client cpu_seconds={time.process_time() - before:.3f}")
    print(f"node: {running.said}")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.null_client", description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, default="small")
    parser.add_argument("--batch", type=int, default=100, help="blocks per HTTP request")
    parser.add_argument("--connections", type=int, default=8)
    wanted = parser.parse_args(arguments)
    asyncio.run(measure(WORKLOADS[wanted.workload], wanted.batch, wanted.connections))


if __name__ == "__main__":
    main(sys.argv[1:])
