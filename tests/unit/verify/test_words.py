"""What a verification tells people."""

from __future__ import annotations

import pytest

from gapless.blocks.stores import span_of
from gapless.cli.render_verify import repair, report_text, verdict
from gapless.core.errors import BadSelector
from gapless.core.ranges import RangeSet, Span
from gapless.verification import Anchored, Coverage, Finding, Report, Reproven
from gapless.views.figures import spans_text
from gapless.views.verify import report_view

WHOLE = RangeSet.of((0, 1999))
GAPS = RangeSet.of(*((at, at + 1) for at in range(0, 100, 10)))


def test_a_long_list_of_ranges_is_shortened() -> None:
    assert spans_text([Span(1, 1), Span(5, 1200)]) == "1, 5-1,200"
    assert spans_text(GAPS.spans) == "0-1, 10-11, 20-21, 30-31 and 6 more"


def test_checks_that_passed_in_part_are_named() -> None:
    part = RangeSet.of((0, 999))
    proven = {"link": WHOLE, "receipts_root": part}
    blocks = Coverage("blocks", WHOLE, WHOLE, 2000, proven, {"prices": WHOLE})
    not_proven = {"prices": WHOLE, "receipts_root": RangeSet.of((1000, 1999))}
    report = Report(1, Span(0, 1999), (blocks,), (), not_proven)
    text = report_text(report_view(report, "ethereum"))
    assert "  proven: link\n  proven in part: receipts_root at 0-999\n" in text
    assert text.endswith("; not proven: prices, receipts_root at 1,000-1,999")


def test_what_is_not_proven_is_reported_even_if_something_is_missing() -> None:
    blocks = Coverage("blocks", WHOLE - GAPS, WHOLE, 1980)
    report = Report(1, Span(0, 1999), (blocks,), (), {"transactions_root": WHOLE - GAPS})
    text = report_text(report_view(report, "ethereum"))
    assert text.splitlines()[-1] == "not proven: transactions_root"


def test_blocks_linked_to_a_known_one_are_named() -> None:
    blocks = Coverage("blocks", WHOLE, WHOLE, 2000)
    anchored = (Anchored(1500, RangeSet.of((0, 1500))),)
    report = Report(1, Span(0, 1999), (blocks,), (), anchored=anchored)
    assert "\n  anchored at 1,500: blocks 0-1,500\n" in report_text(report_view(report, "ethereum"))


def test_claims_that_rows_alone_cannot_repeat_are_named() -> None:
    blocks = Coverage("blocks", WHOLE, WHOLE, 2000)
    reproven = Reproven({}, {"agreed": WHOLE, "senders": RangeSet.of((5, 9))})
    report = Report(1, Span(0, 1999), (blocks,), (), reproven=reproven)
    words = "recorded as proven, but not provable from the rows alone: agreed, senders at 5-9"
    assert f"\n  {words}\n" in report_text(report_view(report, "ethereum"))


def test_long_lists_are_shortened() -> None:
    findings = tuple(Finding("link", "blocks", Span(at, at), "bad") for at in range(0, 60, 2))
    report = Report(1, Span(0, 1999), (Coverage("blocks", WHOLE, WHOLE, 2000),), findings)
    assert report_text(report_view(report, "ethereum")).splitlines()[-2:] == [
        "blocks 38: bad",
        "and 10 more; `--json` lists them all",
    ]
    assert verdict(report) == "30 findings"


def test_the_hint_fetches_the_stored_tables() -> None:
    coverage = tuple(Coverage(name, WHOLE - GAPS, WHOLE) for name in ("blocks", "logs"))
    report = Report(1, Span(0, 1999), coverage, ())
    command = "gapless fetch ethereum 0:91 --rpc … --to 'my sink.db' --datasets blocks,logs"
    hint = repair(report, "ethereum", "my sink.db", has_endpoint=False)
    assert hint == f"run `{command}` to fill the gaps"


@pytest.mark.parametrize(("stored", "option"), [(WHOLE, " --datasets blocks"), (RangeSet(), "")])
def test_the_hint_for_headers_alone_fetches_headers_alone(stored: RangeSet, option: str) -> None:
    report = Report(1, Span(0, 1999), (Coverage("blocks", stored - GAPS, stored | GAPS),), ())
    command = f"run `gapless fetch ethereum 0:91 --to x.db{option}` to fill the gaps"
    assert repair(report, "ethereum", "x.db", has_endpoint=True) == command


def test_an_unlisted_file_must_be_removed_by_hand() -> None:
    stray = Finding("stray", "blocks", Span(0, 9), "the file `x` is not listed", file="x")
    whole = (Coverage("blocks", WHOLE, WHOLE),)
    alone = Report(1, Span(0, 1999), whole, (stray,))
    assert repair(alone, "ethereum", "x/", has_endpoint=True) == (
        "remove it by hand, or move it out of the folder: queries over `*.parquet` read it as well"
    )
    rows = Finding("stray", "blocks", Span(3000, 3000), "present, but not recorded as stored")
    both = Report(1, Span(0, 1999), whole, (stray, rows))
    assert repair(both, "ethereum", "x/", has_endpoint=False) == (
        "run `gapless repair x/ --rpc …` to replace what is wrong"
    )


def test_a_range_needs_two_ends() -> None:
    assert span_of(None) is None
    assert span_of("1k:+10") == (1000, 1009)
    with pytest.raises(BadSelector, match="`5:latest` has no end"):
        span_of("5:latest")
    with pytest.raises(BadSelector, match="`2024-01-01` contains dates"):
        span_of("2024-01-01")
