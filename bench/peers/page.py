"""The page that a run writes. Its text is here; all figures come from that run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bench.peers.bounds import TOO_SHORT, bounds
from bench.peers.measuring import TRIAL_LIMIT
from bench.peers.results import FAULTS, SEVERAL, Cell, Part, Results, Speed, Trial, faster
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

Blocks, transactions and logs of a simulated chain, from a node whose answers were all rendered in
advance. Each tool is a separate process, runs with its defaults, and starts with an empty folder.

{tools}
"""

_QUICK = (
    "with `--quick` (a tenth of the blocks and one round, so its seconds are mostly start-up and"
    " chance),"
)

_READING = """\
**How to read the tables.** *Seconds* is the time of the whole command, the median of {clean}.
*Start* is the same command for a single block; *net* is the difference. *CPU* is the CPU time on
all cores. *Faster* is how many times as fast the first row of Gapless is, for the whole command and
net; below 1, Gapless is slower. *Node* is the share of the time that the node was busy; above
{busy:.0%}, it limited the tool. A run whose net time is less than {several} times its start is too
short to compare: its ratios would mostly compare start-up times.

With faults, a row is *lost* if it is in the chain but not in the output, and *duplicated* if it is
there more than once or does not belong there. Other columns are not compared. *Silently* means that
the exit code was 0 anyway. *Faults* is how many the tool met: a tool that puts many calls into one
request meets fewer faults of requests, and without any the cell says *not met*. HTTP 429 comes
without `Retry-After`, so that no tool waits because it was told to. In each cell, Gapless has
{rounds} with different random faults; rows and faults are their sum, seconds their median. The
others have one round.
"""

_PROVIDERS = """\
## Providers that slow their clients down

Real providers are far away, limit the calls per second, and sometimes fail. Here each tool has one
round with each such provider, and at most {limit:.0f} seconds. *Net* excludes the start, as
measured above. *Calls* counts the calls in requests within the limit; *refused* counts the requests
above it and those that failed. *Budget* is the share of the allowed calls that the tool used.
*Faster* is how many times as fast the first row of Gapless is, net, if both have all rows.
"""

_CLOSING = """\
## What limits Gapless

With a node that answers at once, the limit is the processor. {decoder}

## What this does not show

- A real provider. Those above are simulated, and each is difficult in only one way.
- Tuned tools. All of them have options that make them faster, including Gapless.
- Other features. cryo has many more datasets, ethereum-etl supports more kinds of databases, and
  squid follows the head and includes a framework for indexers.
- What else Gapless does in that time: it proves every block by its header hash and all its roots,
  keeps a ledger, and can be killed at any moment.
"""


_COMPILED = """\
The [compiled core](adr/0041-a-compiled-core-that-is-optional.md) parses, checks and decodes blocks
without Python's global interpreter lock (GIL), on as many threads as there are cores. Requests,
the ledger and the order of blocks are Python, so blocks with few transactions cost more per
transaction. `--processes` helps where those limit a fetch, not where all cores are busy anyway. The
node needs its share of the cores, too."""

_REFERENCE = """\
The compiled core was not used here. Without it, one process holds Python's global interpreter lock
(GIL) nearly all the time, mostly for parsing, checking and decoding. `--processes` uses more cores.
[ADR 0041](adr/0041-a-compiled-core-that-is-optional.md) says what the core does."""


def page(results: Results) -> str:
    """The whole page, as Markdown."""
    parts = map(_part, results.parts)
    closing = _CLOSING.format(decoder=_COMPILED if results.is_compiled else _REFERENCE)
    return "\n".join([_opening(results), *parts, _trials(results), _wanted(results), closing])


def _opening(results: Results) -> str:
    extent = _QUICK if results.quick else "in full,"
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
        clean=_counted(clean, "round"), rounds=rounds, busy=_BOUND_BY_THE_NODE, several=SEVERAL
    )
    return f"{opening}\n{reading}"


def _part(part: Part) -> str:
    workload, rows = part.task.workload, part.task.rows
    heading = f"## {part.task.blocks:,} blocks of about {workload.transactions} transactions"
    sizes = ", ".join(f"{len(keys):,} {table}" for table, keys in rows.items())
    ceiling = f"A client that ignores the answers gets {part.ceiling:,.0f} blocks per second."
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
        net = faster(ours, speed)
        whole = None if net is None else speed.seconds / ours.seconds
        held = " (limited by the node)" if speed.node_share > _BOUND_BY_THE_NODE else ""
        yield (
            str(TOOLS[name]),
            f"{speed.seconds:.2f}",
            f"{speed.start:.2f}",
            _net(speed),
            _rate(speed, part.task.blocks),
            _figure(speed.cpu_seconds),
            "" if name in OURS else _ratio(whole, "-"),
            "" if name in OURS else _ratio(net, TOO_SHORT),
            f"{speed.node_share:.0%}{held}",
        )


def _fault_rows(part: Part, tools: Sequence[Tool]) -> Iterator[Sequence[str]]:
    for fault, words in FAULTS.items():
        yield (
            words,
            *(_cell(part.cells[tool.name][fault], part.speeds[tool.name]) for tool in tools),
        )


def _cell(cell: Cell, clean: Speed) -> str:
    times = f" ({cell.seconds / clean.seconds:.1f}x)" if clean.comparable else ""
    return f"{_verdict(cell)}; {_counted(cell.injected, 'fault')}, {cell.seconds:.1f} s{times}"


def _verdict(cell: Cell) -> str:
    if cell.injected:
        return _outcome(cell)
    return "not met" if cell.worst.complete else f"not met, but exit code {cell.worst.code}"


def _outcome(cell: Cell) -> str:
    count, worst = cell.count, cell.worst
    counts = ((count.lost, "lost"), (count.doubled, "duplicated"))
    wrong = " and ".join(f"{number:,} {what}" for number, what in counts if number)
    if worst.code is None:
        return f"**stopped at the time limit**{f', {wrong}' if wrong else ''}"
    if worst.code:
        return f"**{wrong or 'all rows are there'}**, exit code {worst.code}"
    return f"**{wrong}, silently**" if wrong else "complete"


def _trials(results: Results) -> str:
    return "\n".join([_PROVIDERS.format(limit=TRIAL_LIMIT), *map(_trial, results.trials)])


def _trial(trial: Trial) -> str:
    provider, workload = trial.provider, trial.task.workload
    job = f"{trial.task.blocks:,} blocks of about {workload.transactions} transactions"
    about = f"The provider {provider.does}. The job is {job}."
    budget = () if provider.conditions.rps is None else ("budget",)
    head = ("tool", "outcome", "seconds", "net", "blocks/s", "calls", "refused", *budget, "faster")
    return f"### {provider.name}\n\n{about}\n\n{_table(head, _trial_rows(trial))}\n"


def _trial_rows(trial: Trial) -> Iterator[Sequence[str]]:
    ours, metered = trial.speeds[GAPLESS.name], trial.provider.conditions.rps is not None
    for name, speed in trial.speeds.items():
        used = trial.budget_used(name)
        budget = ("-" if used is None else f"{used:.0%}",)
        unknown = TOO_SHORT if speed.complete and ours.complete else "-"
        yield (
            str(TOOLS[name]),
            _outcome(Cell(speed.whole)),
            f"{speed.seconds:.2f}",
            _net(speed) if speed.complete else "-",
            _rate(speed, trial.task.blocks) if speed.complete else "-",
            f"{speed.calls:,.0f}",
            f"{sum(ran.refused + ran.injected for ran in speed.whole):,}",
            *(budget if metered else ()),
            "" if name in OURS else _ratio(trial.faster(GAPLESS.name, name), unknown),
        )


def _net(speed: Speed) -> str:
    return _figure(speed.net) if speed.comparable else TOO_SHORT


def _rate(speed: Speed, blocks: int) -> str:
    return _figure(blocks / speed.net, digits=0) if speed.comparable else "-"


def _ratio(value: float | None, unknown: str) -> str:
    return unknown if value is None else _figure(value)


def _wanted(results: Results) -> str:
    rows = _table(("figure", "bound", "measured", ""), map(_bound, bounds(results)))
    return f"## Bounds for Gapless\n\n{rows}\n"


def _bound(row: Row) -> Sequence[str]:
    verdict = "met" if row.ok else "**missed**"
    return row.name, str(row.bound or ""), row.figure, verdict if row.bound else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _figure(value: float, digits: int = 2) -> str:
    return f"{value:,.{digits}f}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
