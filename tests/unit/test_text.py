"""Whatever a text contains, the result can be stored and is no longer than requested."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gapless.core.text import CUT, head, storable, tail

ANY_TEXT = st.text(st.characters())  # with NULs and lone surrogates


@given(ANY_TEXT)
def test_storable_text_can_be_encoded_and_has_no_nul(text: str) -> None:
    stored = storable(text)
    assert "\0" not in stored
    assert stored.encode().decode() == stored
    assert storable(stored) == stored


@given(ANY_TEXT, st.integers(1, 40))
def test_cut_texts_fit(text: str, limit: int) -> None:
    assert len(head(text, limit)) <= limit
    assert len(tail(text, limit)) <= max(limit, len(CUT))


def test_text_that_fits_is_unchanged() -> None:
    assert head("abc", 3) == tail("abc", 3) == "abc"
    assert storable("añ\n\x1b😀") == "añ\n\x1b😀"


def test_the_end_of_a_text_starts_with_a_whole_line() -> None:
    assert tail("https://host/KEY\nsecond\nthird", 16) == "…\nsecond\nthird"
    assert tail("https://host/KEY", 10) == "…"
