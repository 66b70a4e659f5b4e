"""Ranges of heights: the grammar, and what they mean below a head."""

from __future__ import annotations

import pytest

from gapless.core.errors import BadSelector
from gapless.core.heights import Heights, Tag, Tip
from gapless.core.ranges import Span


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("18M:18.005M", Heights(18_000_000, 18_005_000)),
        ("18000000:+5000", Heights(18_000_000, 18_004_999)),
        ("0:0", Heights(0, 0)),
        ("7", Heights(7, 7)),
        ("18M:latest", Heights(18_000_000, Tag.LATEST)),
        (":latest", Heights(0, Tag.LATEST)),
        (":finalized", Heights(0, Tag.FINALIZED)),
        ("5:", Heights(5, Tag.FINALIZED)),
        (":99", Heights(0, 99)),
        (" 1_000 : 2k ", Heights(1000, 2000)),
    ],
)
def test_the_grammar(text: str, expected: Heights) -> None:
    assert Heights.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", ":", "latest", "latest:5", "9:3", "5:+0", "a:b", "1:2:3", "-5:9"]
)
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(BadSelector):
        Heights.parse(text)


def test_tags_are_pinned_and_ends_clipped_to_what_is_final() -> None:
    tip = Tip(head=100, final=90, by_depth=False)
    assert tip.pin(Heights(10, 20)) == Span(10, 20)
    assert tip.pin(Heights(10, 95)) == Span(10, 90)
    assert tip.pin(Heights(10, Tag.LATEST)) == Span(10, 90)
    assert tip.pin(Heights(0, Tag.FINALIZED)) == Span(0, 90)
    with pytest.raises(BadSelector, match="not final"):
        tip.pin(Heights(91, 95))
