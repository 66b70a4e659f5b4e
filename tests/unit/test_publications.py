"""Publishers in the configuration, and the spool of a stream."""

from __future__ import annotations

import pytest

from gapless import config
from gapless.chains import find_network
from gapless.core.errors import StreamUnusable, UsageError
from gapless.core.ranges import RangeSet, Span
from gapless.core.redaction import Secrets
from gapless.following.spool import spool_of
from gapless.publishers.plan import diverged, next_span
from gapless.publishers.publication import Publication, publication
from gapless.publishers.publisher import Link
from gapless.publishers.redis.url import StreamUrl

TEXT = """
[sinks.store]
url = "store.db"

[publish.events]
url = "redis://:S3CRET@cache.example:6380/2"
network = "ethereum"
from = 100
"""


def test_names_are_resolved() -> None:
    found = publication(config.parse(TEXT), "events")
    assert (found.sink, found.target, found.stream) == ("store", "store.db", "ethereum:events")
    assert (found.start, found.trim, found.network.chain_id) == (100, None, 1)
    assert found.url.shown == "redis://cache.example:6380/2"
    assert "S3CRET" not in repr(found)
    assert "S3CRET" not in repr(config.parse(TEXT))
    assert "redis://:S3CRET@cache.example:6380/2" in config.parse(TEXT).urls()


def test_the_stream_may_be_in_the_url() -> None:
    text = TEXT.replace("6380/2", "6380/2?stream=mine:events")
    assert publication(config.parse(text), "events").stream == "mine:events"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("[sinks.store]", "[sinks.other]\nurl = 'x.db'\n[sinks.store]"), "needs a sink"),
        (('"ethereum"', '"ethereum"\nsink = "stor"'), "no sink `stor`"),
        (('"redis://:S3CRET@cache.example:6380/2"', '"env:NOT_SET"'), "`NOT_SET` is not set"),
        (('"ethereum"', '"ethereum"\nstream = "a b"'), "cannot be the name of a stream"),
    ],
)
def test_what_cannot_be_resolved(changed: tuple[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        publication(config.parse(TEXT.replace(*changed)), "events")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (('"ethereum"', '"etherium"'), "no network `etherium`.*of the publisher `events`"),
        (("from = 100", "from = -1"), "negative"),
        (("from = 100", "trimm = 1"), "unknown key `trimm`"),
    ],
)
def test_a_wrong_file(changed: tuple[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        config.parse(TEXT.replace(*changed))


async def test_a_duckdb_file_cannot_be_published() -> None:
    url = StreamUrl.parse("redis://127.0.0.1/0")
    wanted = Publication("x", "x", "x.duckdb", find_network("ethereum"), url, "x:events")
    with pytest.raises(StreamUnusable, match="DuckDB"):
        async with wanted.opened_sink():
            pass


@pytest.mark.parametrize(
    ("ledger", "path"),
    [
        ("sqlite:///.gapless/ledger.db", ".gapless/spool-h-6379-0-tron-events.db"),
        ("sqlite:////abs/ledger.db", "/abs/spool-h-6379-0-tron-events.db"),
        ("here/ledger.db", "here/spool-h-6379-0-tron-events.db"),
        ("postgresql://me@db/x", ".gapless/spool-h-6379-0-tron-events.db"),
    ],
)
def test_the_spool_is_next_to_the_ledger(ledger: str, path: str) -> None:
    found = spool_of("ethereum", "redis://:S3CRET@h/0?stream=tron:events", ledger)
    assert found is not None
    assert (found.path, found.name) == (path, "tron-events")
    assert spool_of("ethereum", "chain.db", ledger) is None


def test_a_password_of_redis_is_secret_and_the_stream_is_not() -> None:
    secrets = Secrets(["redis://default:S3CRET@h:6379/0?stream=tron:events&x=H1DDEN"])
    told = secrets.struck_alone("default S3CRET tron:events H1DDEN 0")
    assert told == "default … tron:events … 0"
    assert Secrets(["redis://S3CRET@h"]).struck_alone("S3CRET") == "…"


def test_the_newest_blocks_are_next() -> None:
    assert next_span(RangeSet.of((0, 99)), 99) == Span(80, 99)
    assert next_span(RangeSet.of((0, 79)), 99) == Span(0, 79)
    assert next_span(RangeSet.of((5, 9), (95, 96), (98, 99)), 99) == Span(95, 96)
    assert next_span(RangeSet(), 99) is None


def link(height: int, branch: str = "a", parent: str | None = None) -> Link:
    return Link(f"{branch}{height}".encode(), f"{parent or branch}{height - 1}".encode())


def test_what_is_on_another_branch() -> None:
    published = {height: link(height) for height in range(10, 15)}
    same = {height: link(height) for height in range(10, 15)}
    assert diverged(published, same, RangeSet()) == {}
    assert diverged(published, {}, RangeSet()) == {}, "a sink may hold less"
    assert [*diverged(published, {}, RangeSet.of((13, 13)))] == [13, 14], "and descendants"
    other = {12: link(12, "b", "a")}
    assert [*diverged(published, other, RangeSet())] == [12, 13, 14]
    assert [*diverged(published, {15: link(15, "b")}, RangeSet())] == [14], "not its parent"
    assert [*diverged({12: link(12)}, {11: link(11, "b")}, RangeSet())] == [12], "not its child"
