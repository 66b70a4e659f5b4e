"""What a fetch says about its endpoints: nothing, as long as they work."""

from __future__ import annotations

import pytest

from gapless.cli.render_fetch import endpoint_troubles
from gapless.providers import Served
from gapless.views.fetch import endpoint_views

WELL = Served(calls=9, trouble="HTTP 500")  # it had trouble and recovered


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
    assert endpoint_troubles(endpoint_views({"a": WELL, "b": served})) == expected
