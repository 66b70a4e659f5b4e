"""Many runs of the simulation, each from its own seed.

    python -m tests.simulation --runs 10000 [--seed FIRST] [--jobs 2]
    python -m tests.simulation --runs 1 --seed 4711 --trace
    python -m tests.simulation --follow --runs 200
    python -m tests.simulation --family tron --runs 200
    python -m tests.simulation --publish --runs 1000
    python -m tests.simulation --wallets --runs 200

Prints every seed that fails with the command that repeats it, and exits with 1 if any did.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing import get_context

from tests.simulation.run import Outcome, run, run_follow, run_published, run_wallets
from tests.simulation.subjects import SUBJECTS

_PER_PROCESS = 250  # runs, before a process is replaced by a fresh one


def main() -> int:
    options = _options()
    began, failed = time.monotonic(), 0
    seeds = range(options.seed, options.seed + options.runs)
    fetched = run_follow if options.follow else run
    one: Callable[[int], Outcome] = partial(fetched, family=options.family)
    if options.publish or options.wallets:
        one = run_published if options.publish else run_wallets
    outcomes = _outcomes(seeds, options.jobs, one)
    for done, outcome in enumerate(outcomes, start=1):
        if options.trace:
            print("\n".join(outcome.trace))
        if outcome.problem is not None:
            failed += 1
            print(outcome, flush=True)
        if done % 100 == 0 or done == options.runs:
            seconds = time.monotonic() - began
            print(f"{done} runs in {seconds:.0f} s, {failed} failed", flush=True)
    return 1 if failed else 0


def _outcomes(seeds: range, jobs: int, one: Callable[[int], Outcome]) -> Iterable[Outcome]:
    if jobs == 1:
        yield from map(one, seeds)
        return
    context = get_context("spawn")
    with context.Pool(jobs, maxtasksperchild=_PER_PROCESS) as pool:
        yield from pool.imap_unordered(one, seeds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="Number of runs.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the first run.")
    parser.add_argument("--jobs", type=int, default=1, help="Number of processes.")
    parser.add_argument("--follow", action="store_true", help="Follow the head of a chain.")
    parser.add_argument("--publish", action="store_true", help="Publish blocks on a stream.")
    parser.add_argument("--wallets", action="store_true", help="Add wallets on a followed chain.")
    parser.add_argument(
        "--family", choices=SUBJECTS, help="Chain family.  [default: the seed decides]"
    )
    parser.add_argument("--trace", action="store_true", help="Print everything that happens.")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
