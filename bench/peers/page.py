"""The page that a run writes. Its words are here; its figures are all from that run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isnan

from bench.peers.bounds import bounds
from bench.peers.results import FAULTS, Cell, Part, Results
from bench.peers.tools import GAPLESS, OURS, PEERS, Tool
from bench.report import Row

_BOUND_BY_THE_NODE = 0.7
TOOLS = {**OURS, **PEERS}

_OPENING = """\
# Benchmarks against other tools

This page was written by a run of

```sh
make bench-peers
```

{extent}
on {machine}, on {day}. Run it on your machine: seconds differ, ratios less so.

## The job

Blocks, transactions and logs of a simulated chain, from a node whose answers were all rendered
beforehand. Each tool is a process of its own, runs with its defaults, and finds an empty folder.

{tools}
"""

_QUICK = (
    "with `--quick`: a tenth of the blocks and one round, so that its seconds are mostly start and"
    " chance,"
)

_READING = """\
**How to read it.** *Seconds* are those of the whole command, the median of {clean}. *Start* is the
same command for a single block, *net* is the difference. *CPU* are the seconds that it used of all
cores. *Faster* says how many times as fast Gapless is in its first row, by the whole command and
net; below 1, Gapless is slower. *Node* is how much of the time the node was busy; a tool above
{busy:.0%} was held back by it.

With faults, a row is *lost* if the chain has it and the output has not, and *doubled* if it is
there again or does not belong there. What its columns hold is not compared. *In silence* means that
the exit code was 0 all the same. *Faults* is how many the tool met: faults of requests are fewer
for a tool that puts many calls into one, and without any the cell says *not met*. HTTP 429 comes
without `Retry-After`, so that no time is spent on obedience. In each cell, Gapless has {rounds}
with other lots; rows and faults are their sum, seconds their median. The others have one.
"""

_CLOSING = """\
## What holds Gapless back

Against a node that answers at once, the processor. One process holds Python's lock nearly all the
time, most of it for parsing, checking and decoding. `--processes` uses more cores. On two of them
it cannot double the speed: one process has threads that work beside the lock, and the node needs
its share. [ADR 0018](adr/0018-the-data-plane-is-python.md) says what was tried and what would help.

## What this does not show

- A node that answers at once. Real ones take their time, and then tools differ by how many calls
  they have in flight and how many calls they need.
- Tools with options. All of them can be tuned, Gapless too.
- What else they do. cryo knows many more datasets, ethereum-etl more kinds of databases, the squid
  follows the head and brings a framework for indexers.
- What Gapless does besides in that time: it proves every block by its receipts root and header
  hash, keeps a ledger, and can be killed at any moment.
"""


def page(results: Results) -> str:
    """The whole page, as Markdown."""
    return "\n".join([_opening(results), *map(_part, results.parts), _wanted(results), _CLOSING])


def _opening(results: Results) -> str:
    extent = _QUICK if results.quick else "whole,"
    present = results.parts[0].speeds
    lines = [f"- **{TOOLS[name]}**: {TOOLS[name].does}." for name in present]
    lines += [f"- **{TOOLS[name]}** was not run: {why}." for name, why in results.missing.items()]
    opening = _OPENING.format(
        extent=extent, machine=results.machine, day=results.day.isoformat(), tools="\n".join(lines)
    )
    part = results.parts[0]
    clean = len(part.speeds[GAPLESS.name].whole)
    each = [
        len(cell.rounds) for part in results.parts for cell in part.cells[GAPLESS.name].values()
    ]
    rounds = _counted(min(each), "round")
    if max(each) > min(each):
        rounds += f", or up to {max(each)} until it met a fault,"
    reading = _READING.format(
        clean=_counted(clean, "round"), rounds=rounds, busy=_BOUND_BY_THE_NODE
    )
    return f"{opening}\n{reading}"


def _part(part: Part) -> str:
    workload, rows = part.task.workload, part.task.rows
    heading = f"## {part.task.blocks:,} blocks of about {workload.transactions} transactions"
    sizes = ", ".join(f"{len(keys):,} {table}" for table, keys in rows.items())
    ceiling = f"A client that does nothing with them gets {part.ceiling:,.0f} blocks a second."
    speed = _table(
        ("tool", "seconds", "start", "net", "blocks/s", "CPU", "faster", "faster, net", "node"),
        _speed_rows(part),
    )
    tools = [TOOLS[name] for name in part.cells]
    faults = _table(("fault", *map(str, tools)), _fault_rows(part, tools))
    return f"{heading}\n\n{sizes}. {ceiling}\n\n{speed}\n\n{faults}\n"


def _speed_rows(part: Part) -> Iterator[Sequence[str]]:
    ours = part.speeds[GAPLESS.name]
    for name, speed in part.speeds.items():
        same = name in OURS
        held = " (held back)" if speed.node_share > _BOUND_BY_THE_NODE else ""
        yield (
            str(TOOLS[name]),
            f"{speed.seconds:.2f}",
            f"{speed.start:.2f}",
            _figure(speed.net),
            _figure(part.task.blocks / speed.net, digits=0),
            _figure(speed.cpu_seconds),
            "" if same else _figure(speed.seconds / ours.seconds),
            "" if same else _figure(speed.net / ours.net),
            f"{speed.node_share:.0%}{held}",
        )


def _fault_rows(part: Part, tools: Sequence[Tool]) -> Iterator[Sequence[str]]:
    for fault, words in FAULTS.items():
        yield (
            words,
            *(
                _cell(part.cells[tool.name][fault], part.speeds[tool.name].seconds)
                for tool in tools
            ),
        )


def _cell(cell: Cell, clean: float) -> str:
    times = f"{cell.seconds:.1f} s ({cell.seconds / clean:.1f}x)"
    return f"{_verdict(cell)}; {_counted(cell.injected, 'fault')}, {times}"


def _verdict(cell: Cell) -> str:
    count, worst = cell.count, cell.worst
    if not cell.injected:
        return "not met" if worst.complete else f"not met, yet exit code {worst.code}"
    counts = ((count.lost, "lost"), (count.doubled, "doubled"))
    wrong = " and ".join(f"{number:,} {what}" for number, what in counts if number)
    if worst.code is None:
        return f"**ended after the limit**{f', {wrong}' if wrong else ''}"
    if worst.code:
        return f"**{wrong or 'all rows are there'}**, exit code {worst.code}"
    return f"**{wrong}, in silence**" if wrong else "complete"


def _wanted(results: Results) -> str:
    rows = _table(("what", "wanted", "measured", ""), map(_bound, bounds(results)))
    return f"## What is wanted of Gapless\n\n{rows}\n"


def _bound(row: Row) -> Sequence[str]:
    return row.name, str(row.bound or ""), row.figure, "holds" if row.ok else "**missed**"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _figure(value: float, digits: int = 2) -> str:
    return "-" if isnan(value) else f"{value:,.{digits}f}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
