"""Runs all cells, one after the other, and reports each as it ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from bench import null_client
from bench.conditions import ANSWERS_AT_ONCE, Conditions
from bench.fetching import BATCH
from bench.node_process import node
from bench.peers.counting import truth
from bench.peers.providers import Provider
from bench.peers.results import FAULTS, Cell, Part, Speed, Trial
from bench.peers.running import Ran, Task, run
from bench.peers.tools import GAPLESS, GAPLESS_ON_ALL_CORES, Tool
from bench.rendered import SMALL, Workload, rendered

LONGEST, LEAST_LIMIT = 3, 60.0  # of the clean run, and seconds; the larger is the limit
TRIAL_LIMIT = 120.0  # seconds

CEILING_ROUNDS, ONE_BLOCK_ROUNDS = 3, 2


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    share: int = 1  # of a workload: one in this many blocks
    clean_rounds: int = 3
    fault_rounds: range = range(2, 6)  # of Gapless, until it has met a fault; the others have one


ONE = range(1, 2)
WHOLE, QUICK = Extent(), Extent(share=10, clean_rounds=1, fault_rounds=ONE)


def task_of(workload: Workload, blocks: int) -> Task:
    heights = range(1, blocks + 1)
    return Task(workload, blocks, truth(rendered(workload.parameters), heights))


async def measured(workload: Workload, tools: Sequence[Tool], extent: Extent) -> Part:
    """All tools on a workload: without faults in turns, then with each fault."""
    task = task_of(workload, workload.blocks // extent.share)
    ceiling = await _ceiling(task)
    speeds = await _speeds(task, tools, extent.clean_rounds)
    cells: dict[str, dict[str, Cell]] = {}
    for tool in tools:
        if tool is GAPLESS_ON_ALL_CORES:
            continue  # the same engine: its faults are those of the other row
        limit = max(LEAST_LIMIT, LONGEST * speeds[tool.name].seconds)
        rounds = extent.fault_rounds if tool is GAPLESS else ONE
        cells[tool.name] = {
            fault: await _cell(tool, task, fault, rounds, limit) for fault in FAULTS
        }
    return Part(task, ceiling, speeds, cells)


async def tried(provider: Provider, tools: Sequence[Tool], clean: Part, extent: Extent) -> Trial:
    """All tools with one provider; `clean` says how long each takes to start."""
    task = task_of(SMALL, provider.blocks // extent.share)
    speeds = {}
    for tool in tools:
        ran = await _reported(tool, task, provider.name, provider.conditions, limit=TRIAL_LIMIT)
        speeds[tool.name] = Speed([ran], clean.speeds[tool.name].one_block)
    return Trial(provider, task, speeds)


async def _cell(tool: Tool, task: Task, fault: str, rounds: range, limit: float) -> Cell:
    """At least the first number of rounds, at most the last, until a fault was met."""
    done: list[Ran] = []
    while len(done) < rounds.start or (len(done) + 1 in rounds and not Cell(done).injected):
        conditions = Conditions(faults=fault, seed=len(done))
        done.append(await _reported(tool, task, fault, conditions, limit=limit))
    return Cell(done)


async def _ceiling(task: Task) -> float:
    heights, batch = range(1, task.blocks + 1), BATCH[task.workload]
    async with node(task.workload) as running:
        rates = [
            await null_client.ceiling(running.url, heights, batch=batch, connections=8)
            for _ in range(CEILING_ROUNDS)
        ]
    return max(rates)


async def _speeds(task: Task, tools: Sequence[Tool], rounds: int) -> dict[str, Speed]:
    whole: dict[str, list[Ran]] = {tool.name: [] for tool in tools}
    single: dict[str, list[Ran]] = {tool.name: [] for tool in tools}
    one_block = task_of(task.workload, 1)
    for turn in range(rounds):
        for tool in reversed(tools) if turn % 2 else tools:
            if turn < ONE_BLOCK_ROUNDS:
                single[tool.name].append(await _reported(tool, one_block))
            whole[tool.name].append(await _reported(tool, task))
    return {tool.name: Speed(whole[tool.name], single[tool.name]) for tool in tools}


async def _reported(
    tool: Tool,
    task: Task,
    label: str = "clean",
    conditions: Conditions = ANSWERS_AT_ONCE,
    *,
    limit: float = 300,
) -> Ran:
    ran = await run(tool, task, conditions, limit=limit)
    job = f"{task.workload.name}, {task.blocks:,} blocks, {label}"
    found = f"{ran.count.lost} lost, {ran.count.doubled} duplicated, exit code {ran.code}"
    print(f"{tool}: {job}: {ran.seconds:.2f} s, {found}", file=sys.stderr, flush=True)
    return ran
