"""`gapless backfill …`: start, watch and steer backfills."""

from __future__ import annotations

import asyncio
import time

import click
import msgspec

from gapless.cli import foreground, render
from gapless.cli.options import Duration, common, opened
from gapless.core.backfill import State
from gapless.core.chunk import Order
from gapless.core.errors import UsageError
from gapless.core.retry import RetryKind, RetryPolicy
from gapless.core.selector import Explicit, Filter, Range, Selector
from gapless.ledger import redacted
from gapless.ledger.records import Backfill
from gapless.runtime.catalog import import_job
from gapless.runtime.controller import BackfillOptions, Controller, new_id, request_for


@click.group()
def backfill() -> None:
    """Start, watch and steer backfills."""


@backfill.command()
@click.option("--job", "job_name", required=True, metavar="MODULE:FUNCTION", help="What to run.")
@click.option("--range", "range_text", metavar="A:B", help="From A to B, both included; or A:+N.")
@click.option("--keys", metavar="K,K,…", help="Exactly these partitions.")
@click.option("--filter", "filters", multiple=True, metavar="TAG=VALUE", help="By tag; repeatable.")
@click.option("--chunk-size", type=int, help="Partitions in a chunk; the job's own by default.")
@click.option("--max-concurrent", type=int, default=4, show_default=True, help="Chunks at once.")
@click.option("--queue", default="default", show_default=True)
@click.option("--order", type=click.Choice(list(Order)), default=Order.OLDEST, show_default=True)
@click.option("--retry", type=click.Choice(list(RetryKind)), help="The job's own by default.")
@click.option("--retry-base", type=Duration(), help="First delay of backoff and unbounded.")
@click.option("--retry-max-delay", type=Duration(), help="Longest delay of the same.")
@click.option("--retry-jitter", type=click.FloatRange(0, 1), help="Random share added to it.")
@click.option("--retry-limit", type=int, help="Retries of backoff before a chunk is abandoned.")
@click.option("--retry-schedule", metavar="S,S,…", help="Delays of schedule, in seconds.")
@click.option("--id", "backfill_id", help="An id of your own: asked for again, it is the same.")
@click.option("--detach", is_flag=True, help="Only create it; workers run it.")
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
    queue: str,
    order: str,
    backfill_id: str | None,
    detach: bool,
    **retry: object,
) -> int:
    """Start a backfill and run it here, or with --detach leave it to workers."""
    foreground.import_from_here()
    job = import_job(job_name)
    selector = _selector(range_text, keys, filters)
    options = BackfillOptions(
        chunk_size=chunk_size,
        max_concurrent_runs=max_concurrent,
        queue=queue,
        order=order,
        retry=_retry_policy(job.retry, retry),
        id=backfill_id or new_id(),
    )
    request = request_for(job, selector, options)  # wrong ones end here, before any ledger
    if not detach:
        return await foreground.run(ledger_url, job, request, as_json=as_json)
    async with opened(ledger_url, create=True) as ledger:
        created = await ledger.create(request)
    if as_json:
        click.echo(render.to_json(render.backfill_json(created)))
    else:
        click.echo(created.id)
        click.echo(f"\nhint: `gapless worker --ledger {redacted(ledger_url)}` runs it", err=True)
    return 0


@backfill.command()
@click.option("--state", type=click.Choice(list(State), case_sensitive=False))
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@common
async def ls(ledger_url: str, as_json: bool, state: str | None, limit: int) -> None:
    """List backfills, the newest first."""
    async with opened(ledger_url) as ledger:
        found = await ledger.backfills(state=state, limit=limit)
    if as_json:
        click.echo(render.to_json([render.backfill_json(each) for each in found]))
    elif found:
        click.echo(render.backfill_table(found))
    else:
        click.echo("no backfills", err=True)


@backfill.command()
@click.argument("backfill_id")
@click.option("--chunk", "chunk_index", type=int, help="Explain this chunk only.")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True)
@common
async def show(
    ledger_url: str, as_json: bool, backfill_id: str, chunk_index: int | None, limit: int
) -> None:
    """Show a backfill, and why its chunks are not running."""
    async with opened(ledger_url) as ledger:
        found = await ledger.backfill(backfill_id)
        explained = await Controller(ledger).explain(
            backfill_id, limit=limit, chunk_index=chunk_index
        )
    if as_json:
        waiting = [render.explanation_json(each) for each in explained]
        click.echo(render.to_json({**render.backfill_json(found), "waiting": waiting}))
    else:
        click.echo(render.backfill_page(found, explained))


@backfill.command()
@click.argument("backfill_id")
@click.option(
    "--timeout", "patience", type=Duration(), help="Give up waiting after this long, with exit 1."
)
@common
async def wait(ledger_url: str, as_json: bool, backfill_id: str, patience: float | None) -> int:
    """Wait until a backfill has ended; exit 0 if it succeeded, 1 if not."""
    started = time.monotonic()
    async with opened(ledger_url) as ledger:
        with foreground.ProgressDisplay() as display:
            while True:
                found = await ledger.backfill(backfill_id)
                display.show(found)
                late = patience is not None and time.monotonic() - started >= patience
                if found.state.ended or late:
                    break
                await asyncio.sleep(0.2)
        foreground.report(found, ledger.url, as_json=as_json)
    return 0 if found.state is State.SUCCEEDED else 1


@backfill.command()
@click.argument("backfill_id")
@common
async def pause(ledger_url: str, as_json: bool, backfill_id: str) -> None:
    """Start nothing new; what runs, finishes."""
    async with opened(ledger_url) as ledger:
        _echo(await ledger.pause(backfill_id), as_json)


@backfill.command()
@click.argument("backfill_id")
@common
async def resume(ledger_url: str, as_json: bool, backfill_id: str) -> None:
    """Go on with a paused backfill."""
    async with opened(ledger_url) as ledger:
        _echo(await ledger.resume(backfill_id), as_json)


@backfill.command()
@click.argument("backfill_id")
@click.option("--force", is_flag=True, help="Do not wait for what runs: end its leases.")
@common
async def cancel(ledger_url: str, as_json: bool, backfill_id: str, force: bool) -> None:
    """End a backfill once what runs has finished."""
    async with opened(ledger_url) as ledger:
        _echo(await ledger.cancel(backfill_id, force=force), as_json)


@backfill.command("retry-failed")
@click.argument("backfill_id")
@click.option("--request-id", help="The same request id again gives the same backfill.")
@common
async def retry_failed(
    ledger_url: str, as_json: bool, backfill_id: str, request_id: str | None
) -> None:
    """Make a new backfill of all that an ended one did not complete."""
    async with opened(ledger_url) as ledger:
        _echo(await Controller(ledger).retry_failed(backfill_id, request_id), as_json)


def _echo(found: Backfill, as_json: bool) -> None:
    if as_json:
        click.echo(render.to_json(render.backfill_json(found)))
    else:
        click.echo(render.backfill_table([found]))


def _selector(range_text: str | None, keys: str | None, filters: tuple[str, ...]) -> Selector:
    if sum(bool(given) for given in (range_text, keys, filters)) != 1:
        raise UsageError(
            "give exactly one of `--range`, `--keys` and `--filter`",
            hint="for example `--range 0:9999`",
        )
    if range_text:
        return Range.parse(range_text)
    if keys:
        return Explicit.of(key.strip() for key in keys.split(",") if key.strip())
    tags = dict(pair.partition("=")[::2] for pair in filters)
    if not all(tags.values()):
        raise UsageError("a filter needs a tag and a value", hint="write `--filter tier=gold`")
    return Filter(tags)


def _retry_policy(job_policy: RetryPolicy, given: dict[str, object]) -> RetryPolicy:
    """The job's policy, with what the command line says instead."""
    chosen = given.pop("retry")
    policy = RetryPolicy.named(str(chosen)) if chosen else job_policy
    schedule = given.pop("retry_schedule")
    if schedule and policy.kind is not RetryKind.SCHEDULE:
        raise UsageError(f"`--retry-schedule` does not fit `{policy.kind}`")
    changed = {_FIELDS[name]: value for name, value in given.items() if value is not None}
    if changed and policy.kind not in (RetryKind.BACKOFF, RetryKind.UNBOUNDED):
        raise UsageError(f"the policy `{policy.kind}` has no such numbers to set")
    if schedule:
        changed["delays"] = tuple(
            Duration().convert(part, None, None) for part in str(schedule).split(",")
        )
    if "base" in changed and "max_delay" not in changed:
        changed["max_delay"] = max(policy.max_delay, float(str(changed["base"])))
    return msgspec.structs.replace(policy, **changed)


_FIELDS = {
    "retry_base": "base",
    "retry_max_delay": "max_delay",
    "retry_jitter": "jitter",
    "retry_limit": "retries",
}
