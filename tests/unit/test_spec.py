"""A spec has one canonical form, is returned as given, and is checked before it is stored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.core.errors import UsageError
from gapless.core.spec import LARGEST_SPEC, encode_spec

words = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**256), 2**256) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(words, values, max_size=4))
def test_a_spec_is_returned_as_given_and_its_order_does_not_matter(spec: dict[str, Any]) -> None:
    text = encode_spec(spec)
    assert msgspec.json.decode(text) == spec
    assert encode_spec(dict(reversed(spec.items()))) == text


@pytest.mark.parametrize(
    "wrong",
    [
        ["a"],
        "a",
        {"a": object()},
        {1: "a"},
        {"a": (1, 2)},
        {"a": float("nan")},
        {"a": b"bytes"},
    ],
    ids=["list", "text", "object", "number-key", "tuple", "nan", "bytes"],
)
def test_anything_but_a_json_object_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="not an object that JSON can represent exactly"):
        encode_spec(wrong)


def test_a_spec_has_a_maximum_size() -> None:
    fits = {"a": "é" * ((LARGEST_SPEC - len('{"a":""}')) // 2)}
    assert len(encode_spec(fits).encode()) == LARGEST_SPEC
    with pytest.raises(UsageError, match="4,097 bytes; the limit is 4,096") as error:
        encode_spec({"a": fits["a"] + "."})
    assert error.value.hint == "store large values elsewhere, and refer to them by name"


@pytest.mark.parametrize(
    "url", ["https://node.example/v2/KEY", "postgresql://me:word@host/db", "wss://x.y/?key=1"]
)
def test_a_url_that_may_contain_a_secret_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(UsageError) as error:
        encode_spec({"endpoints": [{"url": url}]})
    assert url not in str(error.value) + str(error.value.hint)
