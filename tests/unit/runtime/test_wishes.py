"""How long a fetch waits after a failure: seconds in the foreground, minutes otherwise."""

from __future__ import annotations

import pytest

from gapless.blocks.request import build_request
from gapless.config import Config, Retry
from gapless.core.retry import RetryKind, RetryPolicy


def retry(kind: RetryKind, config: Config | None = None, *, detached: bool = False) -> RetryPolicy:
    place = ("custom", "0:9", ["http://127.0.0.1:1"], "x.db")
    wish, _ = build_request(config or Config(), *place, {"retry": kind}, detached=detached)
    return wish.retry


@pytest.mark.parametrize("kind", [RetryKind.BACKOFF, RetryKind.UNBOUNDED])
def test_the_first_delays_in_the_foreground_are_seconds(kind: RetryKind) -> None:
    delays = [retry(kind).delay(failures, 0.0) for failures in (1, 2, 3, 9)]
    assert delays == [2, 4, 8, 60]
    assert retry(kind, detached=True) == RetryPolicy.named(kind)


@pytest.mark.parametrize("kind", [RetryKind.SCHEDULE, RetryKind.HALT])
def test_other_policies_are_the_same_in_the_foreground(kind: RetryKind) -> None:
    assert retry(kind) == retry(kind, detached=True) == RetryPolicy.named(kind)


def test_configured_numbers_override_those_of_the_foreground() -> None:
    config = Config(retry=Retry(base="10s", limit=2))
    assert retry(RetryKind.BACKOFF, config).delay(1, 0.0) == 10
    assert retry(RetryKind.BACKOFF, config).retries == 2
