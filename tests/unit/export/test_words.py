"""What `gapless export` says about gaps."""

from __future__ import annotations

from gapless.cli.render_export import gaps_text, repair
from gapless.core.ranges import RangeSet


def test_what_is_missing_and_how_to_get_it() -> None:
    both = {"blocks": RangeSet.of((10, 12)), "logs": RangeSet.of((3, 3))}
    assert gaps_text(both, "blocks") == "3 blocks missing: 10-12; logs of 1 block missing: 3"
    assert repair(both, "blocks", "ethereum", "a b.db", has_endpoint=False) == (
        "`gapless fetch ethereum 3:12 --rpc … --to 'a b.db'` fetches them"
    )
    logs = {"logs": RangeSet.of((3, 3))}
    assert repair(logs, "blocks", "base", "x/", has_endpoint=True) == (
        "`gapless fetch base 3:3 --to x/ --datasets blocks,logs` fetches them"
    )
