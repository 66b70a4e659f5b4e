"""Categories that people set."""

from __future__ import annotations

import pytest

from gapless.core.errors import UsageError
from gapless.wallets.categories import Category, parse_category


@pytest.mark.parametrize("category", Category)
def test_each_category_is_known_by_its_name(category: Category) -> None:
    assert parse_category(category.value) is category


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("swpa", "did you mean `swap`?"),
        ("staking", "known are in, out, between"),
        ("", "known are"),
    ],
)
def test_others_are_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"`{name}` is not a category") as refused:
        parse_category(name)
    assert (refused.value.hint or "").startswith(hint)
