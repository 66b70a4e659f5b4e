"""`gapless backfill start`: create a backfill from options, and run it or leave it to workers."""

from __future__ import annotations

from typing import Any

import click

from gapless.cli import foreground, render
from gapless.cli.metrics import metrics_option
from gapless.cli.options import Duration, Durations, commands, common, hint, note, opened
from gapless.cli.output import print_json
from gapless.config import Retry, load
from gapless.core.chunk import Order
from gapless.core.errors import UsageError
from gapless.core.retry import NUMBERS, RetryKind, RetryPolicy
from gapless.core.selector import Explicit, Filter, Range, Selector
from gapless.runtime.catalog import import_job
from gapless.runtime.controller import BackfillOptions, Controller, new_id, request_for
from gapless.runtime.job import SHORTEST_TIMEOUT, Job
from gapless.runtime.process_control import import_from_here, stdout_kept_for_data
from gapless.views.backfills import backfill_view, explanation_view

_ORDERS = [order.value for order in Order]
_POLICIES = [kind.value for kind in RetryKind]


@click.command()
@click.option("--job", "job_name", required=True, metavar="MODULE:FUNCTION", help="Job to run.")
@click.option(
    "--range", "range_text", metavar="A:B", help="Range of partitions, both ends included; or A:+N."
)
@click.option("--keys", metavar="K,K,…", help="List of partitions.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="TAG=VALUE",
    help="Select partitions by tag. Repeatable.",
)
@click.option("--chunk-size", type=int, help="Partitions per chunk.  [default: set by the job]")
@click.option("--max-concurrent", type=int, default=4, show_default=True, help="Concurrent chunks.")
@click.option("--queue", help="Queue of the worker slots that may run it.  [default: default]")
@click.option(
    "--order",
    type=click.Choice(_ORDERS),
    default=Order.OLDEST.value,
    show_default=True,
    help="Which partitions to run first.",
)
@click.option(
    "--timeout",
    "run_timeout",
    type=Duration(at_least=SHORTEST_TIMEOUT),
    help="Fail runs that take longer.  [default: set by the job]",
)
@click.option(
    "--retry", type=click.Choice(_POLICIES), help="Retry policy.  [default: set by the job]"
)
@click.option(
    "--retry-base", type=Duration(), help="First delay of the policies backoff and unbounded."
)
@click.option(
    "--retry-max-delay",
    type=Duration(),
    help="Longest delay of the policies backoff and unbounded.",
)
@click.option(
    "--retry-jitter", type=click.FloatRange(0, 1), help="Random share to add to each delay."
)
@click.option(
    "--retry-limit", type=int, help="Retries of the policy backoff before a chunk is abandoned."
)
@click.option(
    "--retry-schedule", type=Durations(), metavar="T,T,…", help="Delays of the policy schedule."
)
@click.option("--id", "backfill_id", help="Your own id; reusing it resumes that backfill.")
@click.option("--detach", is_flag=True, help="Create the backfill and leave it to workers.")
@metrics_option
@common
async def start(
    ledger_url: str,
    as_json: bool,
    job_name: str,
    range_text: str | None,
    keys: str | None,
    filters: tuple[str, ...],
    chunk_size: int | None,
    max_concurrent: int,
    queue: str | None,
    order: str,
    run_timeout: float | None,
    backfill_id: str | None,
    detach: bool,
    metrics_port: int | None,
    **retry: Any,
) -> int:
    """Start a backfill here, or leave it to workers.

    Prints the id of the backfill and runs it to its end; with --detach, workers run it. Start it
    again with the same id to resume it. Durations are in seconds or have a unit: 90, 2m, 1.5h.
    """
    config = load()
    selector = selector_of(range_text, keys, filters)
    job = _imported(job_name)
    options = BackfillOptions(
        chunk_size=chunk_size,
        max_concurrent_runs=max_concurrent,
        queue=queue or config.queue,
        order=order,
        retry=retry_policy(job.retry, config.retry, retry, foreground=not detach),
        timeout=run_timeout,
        id=new_id() if backfill_id is None else backfill_id,
    )
    request = request_for(job, selector, options)  # wrong ones end here, before any ledger
    if not detach:
        return await foreground.run(
            ledger_url, job, request, as_json=as_json, metrics_port=metrics_port
        )
    async with opened(ledger_url, create=True) as ledger:
        created = await ledger.create(request)
        explained = await Controller(ledger).explain(created.id, limit=1)
    shown = backfill_view(created)
    if as_json:
        print_json(shown)
    else:
        click.echo(shown.id)
    note(render.plan(shown))
    waiting = [explanation_view(each) for each in explained]
    hint(render.next_step(shown, waiting, commands()))
    return 0


def _imported(name: str) -> Job:
    import_from_here()
    with stdout_kept_for_data():
        return import_job(name)


def selector_of(range_text: str | None, keys: str | None, filters: tuple[str, ...]) -> Selector:
    """The one selector that was given."""
    if sum(given not in (None, ()) for given in (range_text, keys, filters)) != 1:
        raise UsageError(
            "give exactly one of `--range`, `--keys` and `--filter`",
            hint="for example `--range 0:9999`",
        )
    if range_text is not None:
        return Range.parse(range_text)
    if keys is not None:
        return Explicit.of(key.strip() for key in keys.split(",") if key.strip())
    tags: dict[str, str] = {}
    for text in filters:
        name, _, value = (part.strip() for part in text.partition("="))
        if not (name and value):
            raise UsageError(f"`{text}` is not a filter", hint="write `--filter tier=gold`")
        if tags.setdefault(name, value) != value:
            raise UsageError(
                f"the filter wants `{name}` to be both `{tags[name]}` and `{value}`",
                hint="start one backfill for each value",
            )
    return Filter(tags)


_NUMBERS = {
    "retry_base": "base",
    "retry_max_delay": "max_delay",
    "retry_jitter": "jitter",
    "retry_limit": "retries",
    "retry_schedule": "delays",
}


def retry_policy(
    of_job: RetryPolicy, configured: Retry, given: dict[str, Any], *, foreground: bool = False
) -> RetryPolicy:
    """The job's policy, with what the command line says instead.

    Numbers of the configuration replace the usual ones, not those that a job has chosen. While a
    person waits, the usual ones are short.
    """
    chosen = given.get("retry")
    policy = RetryPolicy.named(str(chosen)) if chosen else of_job
    if policy.is_usual:
        usual = RetryPolicy.foreground(policy.kind) if foreground else policy
        policy = configured.applied(usual)
    numbers = {field: given[option] for option, field in _NUMBERS.items() if option in given}
    for option, field in _NUMBERS.items():
        if given.get(option) is not None and field not in NUMBERS[policy.kind]:
            fitting = min(kind for kind in RetryKind if field in NUMBERS[kind])
            raise UsageError(
                f"`--{option.replace('_', '-')}` does not fit the retry policy `{policy.kind}`",
                hint=f"it belongs to `--retry {fitting}`",
            )
    return policy.numbered(**numbers)
