"""`gapless backfill start`: from options to a backfill, run here or left to workers."""

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
from gapless.views.backfills import backfill_view, explanation_view

_ORDERS = [order.value for order in Order]
_POLICIES = [kind.value for kind in RetryKind]


@click.command()
@click.option("--job", "job_name", required=True, metavar="MODULE:FUNCTION", help="What to run.")
@click.option("--range", "range_text", metavar="A:B", help="From A to B, both included; or A:+N.")
@click.option("--keys", metavar="K,K,…", help="Exactly these partitions.")
@click.option("--filter", "filters", multiple=True, metavar="TAG=VALUE", help="By tag; repeatable.")
@click.option("--chunk-size", type=int, help="Partitions in a chunk; the job's own by default.")
@click.option("--max-concurrent", type=int, default=4, show_default=True, help="Chunks at once.")
@click.option("--queue", help="Queue whose slots may run it.  [default: default]")
@click.option(
    "--order",
    type=click.Choice(_ORDERS),
    default=Order.OLDEST.value,
    show_default=True,
    help="Which end to begin at.",
)
@click.option(
    "--timeout",
    "run_timeout",
    type=Duration(at_least=SHORTEST_TIMEOUT),
    help="Fail a run that takes longer; the job's own by default.",
)
@click.option("--retry", type=click.Choice(_POLICIES), help="The job's own by default.")
@click.option("--retry-base", type=Duration(), help="First delay of backoff and unbounded.")
@click.option("--retry-max-delay", type=Duration(), help="Longest delay of the same.")
@click.option("--retry-jitter", type=click.FloatRange(0, 1), help="Random share added to it.")
@click.option("--retry-limit", type=int, help="Retries of backoff before a chunk is abandoned.")
@click.option(
    "--retry-schedule", type=Durations(), metavar="T,T,…", help="Delays of schedule, one by one."
)
@click.option("--id", "backfill_id", help="An id of your own: asked for again, it is the same.")
@click.option("--detach", is_flag=True, help="Only create it; workers run it.")
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
    """Start a backfill, here or for workers.

    Runs it here to its end, or with --detach leaves it to workers; prints its id. Started again
    with the same id, it goes on. Durations are in seconds, or have a unit: 90, 2m, 1.5h.
    """
    config = load()
    selector = selector_of(range_text, keys, filters)
    job = _imported(job_name)
    options = BackfillOptions(
        chunk_size=chunk_size,
        max_concurrent_runs=max_concurrent,
        queue=queue or config.queue,
        order=order,
        retry=retry_policy(job.retry, config.retry, retry),
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
    foreground.import_from_here()
    with foreground.stdout_kept_for_data():
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
                f"the filter wants `{name}` to be `{tags[name]}` and `{value}`",
                hint="start a backfill for each",
            )
    return Filter(tags)


_NUMBERS = {
    "retry_base": "base",
    "retry_max_delay": "max_delay",
    "retry_jitter": "jitter",
    "retry_limit": "retries",
    "retry_schedule": "delays",
}


def retry_policy(of_job: RetryPolicy, configured: Retry, given: dict[str, Any]) -> RetryPolicy:
    """The job's policy, with what the command line says instead.

    Numbers of the configuration replace the usual ones, not those that a job has chosen.
    """
    chosen = given.get("retry")
    policy = RetryPolicy.named(str(chosen)) if chosen else of_job
    if policy.is_usual:
        policy = configured.applied(policy)
    numbers = {field: given[option] for option, field in _NUMBERS.items() if option in given}
    for option, field in _NUMBERS.items():
        if given.get(option) is not None and field not in NUMBERS[policy.kind]:
            fitting = min(kind for kind in RetryKind if field in NUMBERS[kind])
            raise UsageError(
                f"`--{option.replace('_', '-')}` does not fit the retry policy `{policy.kind}`",
                hint=f"it belongs to `--retry {fitting}`",
            )
    return policy.numbered(**numbers)
