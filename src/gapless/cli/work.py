"""What the processes of a command have done, for its last lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.runtime.work import Work
from gapless.views.figures import counted, duration, short
from gapless.views.worker import OUTCOMES, WorkerView


def summary(worker: WorkerView) -> str:
    """What came of a worker, in one line."""
    runs = {name: getattr(worker, name) for name in OUTCOMES.values()}
    counts = [f"{count:,} {name}".replace("_", " ") for name, count in runs.items() if count]
    text = f"chunks: {', '.join(counts) or 'none run'} in {duration(worker.seconds)}"
    if worker.partitions:
        rate = short(worker.partitions_per_second)
        text += f"; {counted(worker.partitions, 'partition')}, {rate} partitions/s"
    return f"{text}; {_written(worker)}" if worker.blocks else text


def by_process(works: Sequence[Work], seconds: float) -> list[str]:
    """What each process has done, a line for each; nothing, if there is only one."""
    if len(works) == 1:
        return []
    fetches = any(work.blocks for work in works)
    return [
        f"process {nth}: {counted(work.chunks, 'chunk')}, "
        + (_fetched(work, seconds) if fetches else counted(work.partitions, "partition"))
        for nth, work in enumerate(works, 1)
    ]


def _fetched(work: Work, seconds: float) -> str:
    return f"{_written(work)}, {short(_rate(work.blocks, seconds))} blocks/s"


def _written(work: Work | WorkerView) -> str:
    batches = counted(work.batches, "batch", "batches")
    return f"{counted(work.blocks, 'block')} written in {batches}"


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds else 0.0
