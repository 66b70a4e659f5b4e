"""What a person asks for when they follow a chain."""

from __future__ import annotations

import pytest

from gapless.config import Config, EndpointSettings, FollowSettings, SinkTarget
from gapless.core.errors import BadSelector, UsageError
from gapless.core.heights import Moment
from gapless.following.creation import FollowRequest
from gapless.following.request import build_follow, configured

CONFIG = Config(
    endpoints={"node": EndpointSettings("https://host/KEY", network="celo")},
    sinks={"chain": SinkTarget("chain.db")},
)


def follow(start: str | int | None = None, to: str | None = None, **names: str) -> FollowRequest:
    request, _ = build_follow(CONFIG, "celo", (), to, start, {}, **names)
    return request


@pytest.mark.parametrize(
    ("text", "first"), [(None, None), (0, 0), (17, 17), ("17", 17), ("18M", 18_000_000)]
)
def test_a_start(text: str | int | None, first: int | None) -> None:
    assert follow(text).start == first


@pytest.mark.parametrize("text", ["2024-01-31", "2024-01-31T10:00Z", "2024-01-31T10:00:05Z"])
def test_a_start_by_date(text: str) -> None:
    found = follow(text).start
    assert isinstance(found, Moment)
    assert found.text == text


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("5:9", "is a range"),
        ("5:", "is a range"),
        ("2024-01-01:2024-01-31", "is a range"),
        ("2024-01-01T10:00Z:latest", "is a range"),
        (":9", "is neither a height nor a date"),
        ("latest", "is neither a height nor a date"),
        (-5, "is neither a height nor a date"),
        ("", "is neither a height nor a date"),
        ("17x", "is not a number"),
    ],
)
def test_starts_that_are_refused(text: str | int, error: str) -> None:
    with pytest.raises(BadSelector, match=error) as raised:
        follow(text)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("to", "name"),
    [
        (None, "celo-chain"),
        ("folder/my blocks.db", "celo-my-blocks"),
        ("parquet/", "celo-parquet"),
        ("postgresql://user:secret@host/db", "celo"),
        (f"{'x' * 60}.db", f"celo-{'x' * 35}"),
    ],
)
def test_the_default_name(to: str | None, name: str) -> None:
    assert follow(to=to).name == name


@pytest.mark.parametrize("name", ["a b", "x" * 41, "a/b", "…"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a follow"):
        follow(name=name)


def test_a_follow_of_the_configuration() -> None:
    settings = FollowSettings(network="celo", start="18M", datasets="blocks,logs", verify="links")
    request = configured(CONFIG, "mine", settings)
    assert (request.name, request.start) == ("mine", 18_000_000)
    assert request.blocks.datasets == ("blocks", "logs")
    assert (request.blocks.endpoints, request.blocks.sink) == (("node",), "chain")
