"""What a fetch says of its endpoints: nothing, as long as they are well."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gapless.cli.fetch import FetchLine
from gapless.cli.fetching import Standing, endpoint_troubles, progress_line
from gapless.core.ranges import RangeSet, Span
from gapless.runtime.counts import Counts
from gapless.sources.rpc import Served

WELL = Served(calls=9, trouble="HTTP 500")  # it had some trouble, and has recovered


@pytest.mark.parametrize(
    ("served", "said"),
    [
        (WELL, None),
        (Served(trouble="HTTP 401", down=True), "HTTP 401"),
        (Served(refused=1), "1 answer refused"),
        (Served(refused=12, trouble="HTTP 401", down=True), "HTTP 401, 12 answers refused"),
        (Served(trouble=f"HTTP 401\n{'x' * 99}", down=True), f"HTTP 401 {'x' * 50}…"),
    ],
)
def test_what_is_wrong_with_an_endpoint(served: Served, said: str | None) -> None:
    expected = [] if said is None else [("b", said)]
    assert endpoint_troubles({"a": WELL, "b": served}) == expected


def test_the_progress_line_names_it() -> None:
    endpoints = {"a": WELL, "rpc2": Served(trouble="HTTP 401", down=True)}
    at = Standing("custom", 10, 5, 0.0, 0.0, 0, 0, 0, endpoints)
    assert progress_line(at, 120).endswith("5/10 blocks  rpc2: HTTP 401")
    assert len(progress_line(at, 30)) <= 30


def test_the_live_line_has_what_is_known_of_the_endpoints() -> None:
    counts = Counts(blocks=5, endpoints={"a": WELL, "rpc2": Served(refused=3)})
    plane: Any = SimpleNamespace(counts=counts)
    spec = SimpleNamespace(network="custom")
    fetch: Any = SimpleNamespace(spec=spec, span=Span(0, 9), missing=RangeSet.of((0, 9)))
    backfill: Any = SimpleNamespace(chunks=SimpleNamespace(failed=0))
    assert FetchLine(fetch, plane)(backfill, 1.0, 120).endswith("  rpc2: 3 answers refused")
