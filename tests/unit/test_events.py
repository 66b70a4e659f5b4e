"""Events have the seed's idempotency keys, stay small, and survive storage."""

from __future__ import annotations

import msgspec
import pytest

from gapless.core.chunk import Status
from gapless.core.events import (
    AnyEvent,
    BackfillChunkPlanned,
    BackfillCompacted,
    BackfillCreated,
    BackfillFolded,
    BackfillStateChanged,
    BackfillStopRequested,
    ChunkEnded,
    ChunkFailed,
    Codec,
    Event,
    RunRequested,
)
from gapless.core.partitions import Scheme, block_heights, static
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Explicit, Filter, Range, Selector, resolve, summary

CREATED = BackfillCreated(
    "bf", "copy", 1, {"kind": "range"}, "hash", 10, 4, 4, "default", "oldest", {}
)
EVENTS: list[tuple[AnyEvent, str]] = [
    (CREATED, "backfill_created:bf"),
    (BackfillStateChanged("bf", "PENDING", "RUNNING", 1), "backfill_state:bf:1:RUNNING"),
    (BackfillStopRequested("bf", "cancel"), "backfill_stop:bf:cancel"),
    (BackfillChunkPlanned("bf", 7, 70, 79), "backfill_chunk:bf:7"),
    (RunRequested("bf", "backfill:bf:chunk:7"), "run_requested:backfill:bf:chunk:7"),
    (ChunkFailed("bf", 7, 99, 1, 0, "Boom", "it broke", "w"), "chunk_failed:bf:7:99"),
    (ChunkEnded("bf", 7, Status.COMPLETE), "chunk_ended:bf:7"),
    (BackfillCompacted("bf", 9, 4, 0, 0, "digest"), "backfill_compacted:bf"),
    (BackfillFolded("bf", 4, 1, 2, 3), "backfill_folded:bf"),
]


@pytest.mark.parametrize(("event", "key"), EVENTS)
def test_each_event_happens_once_by_its_key(event: AnyEvent, key: str) -> None:
    assert event.idempotency_key == key


@pytest.mark.parametrize(("event", "key"), EVENTS)
def test_each_event_survives_storage(event: AnyEvent, key: str) -> None:
    payload = Codec.payload(event)
    assert "backfill_id" not in payload
    assert Codec.decode(type(event).__name__, "bf", payload) == event


def test_every_kind_of_event_is_in_this_file() -> None:
    assert {type(event) for event, _ in EVENTS} == set(Event.__subclasses__())


def test_an_event_without_a_key_is_a_mistake() -> None:
    with pytest.raises(NotImplementedError):
        _ = Event("bf").idempotency_key


def test_a_planned_chunk_requests_its_run_in_the_same_breath() -> None:
    planned = BackfillChunkPlanned("bf", 7, 70, 79)
    assert planned.chunk_id == "bf:7"
    assert planned.run_requested == RunRequested("bf", "backfill:bf:chunk:7")


TAGS = {"network": "ethereum-mainnet", "kind": "wallet"}
WALLETS = [f"0x{n:040x}" for n in range(100_000)]


@pytest.mark.parametrize(
    ("selector", "scheme", "partitions"),
    [
        (Range("0", "9999999"), block_heights(), 10_000_000),
        (Explicit.of(WALLETS), static(WALLETS), 100_000),
        (Filter(TAGS), static(dict.fromkeys(WALLETS, TAGS)), 100_000),
    ],
    ids=["range", "explicit", "filter"],
)
def test_the_created_event_stays_under_a_kilobyte(
    selector: Selector, scheme: Scheme, partitions: int
) -> None:
    selection = resolve(selector, scheme)
    assert len(selection) == partitions
    event = BackfillCreated(
        "wallets-2024-01-31-ethereum-mainnet",
        "my_company.jobs.wallets:transfers",
        12,
        summary(selector),
        selection.digest,
        len(selection),
        1000,
        16,
        "backlog",
        "newest",
        msgspec.to_builtins(RetryPolicy.schedule()),
        "wallets-2023-01-31-ethereum-mainnet",
        "wallets-2023-01-31-ethereum-mainnet:2",
        "wallets",
    )
    assert len(Codec.payload(event)) < 1024


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        CREATED.job = "move"  # type: ignore[misc]


def test_what_was_left_out_is_read_as_none() -> None:
    event = Codec.decode("BackfillCreated", "bf", Codec.payload(CREATED))
    assert isinstance(event, BackfillCreated)
    assert (event.parent_backfill_id, event.retry_request_id, event.group) == (None, None, None)
    assert "parent" not in Codec.payload(CREATED)
