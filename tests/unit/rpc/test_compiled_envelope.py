"""Where the compiled core finds the results of an answer, the decoders find the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.providers import envelope
from gapless.providers.calls import UNREADABLE, BatchReply, MalformedReply
from gapless.schema.native import Core, installed

Split = Callable[[bytes], list[tuple[int, int, int]] | None]

pytestmark = pytest.mark.skipif(
    installed().module is None, reason="the compiled core is not installed"
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
ids = st.integers(0, 9) | st.integers() | st.sampled_from(["1", 1.0, 1.5, None, 2**64, "x"])
members = st.one_of(
    *[st.tuples(st.just("id"), ids)] * 3,
    *[st.tuples(st.just("result"), values)] * 3,
    st.tuples(st.sampled_from(["error", "Error"]), st.none() | values),
    st.tuples(st.sampled_from(["jsonrpc", "ID", "", "results"]), values),
)


@st.composite
def answers(draw: st.DrawFn) -> str:
    """An answer whose members come in any order, and may be repeated or missing."""
    usual = [("id", draw(st.integers(0, 9))), ("result", draw(values))]
    found = draw(st.permutations([*usual, *draw(st.lists(members, max_size=2))]))
    dropped = draw(st.integers(0, 9))
    space, ascii_ = draw(st.sampled_from(["", " ", "\n\t", "\r"])), draw(st.booleans())
    texts = [
        f"{json.dumps(key)}{space}:{space}{json.dumps(value, ensure_ascii=ascii_)}"
        for nth, (key, value) in enumerate(found)
        if nth != dropped
    ]
    return f"{{{space}{f'{space},{space}'.join(texts)}{space}}}"


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A list of answers or one, at times with some bytes changed."""
    texts = draw(st.lists(answers(), max_size=4))
    whole = f" [{' , '.join(texts)}]" if draw(st.booleans()) else "".join(texts[:1])
    body = bytearray(whole.encode(errors="surrogatepass"))
    for _ in range(draw(st.integers(0, 2)) if draw(st.booleans()) else 0):
        at = draw(st.integers(0, len(body)))
        new = draw(
            st.sampled_from([b"", b"\\", b'"', b"\xff", b"\0", b"0", b",", b"]", b"}", b"-"])
        )
        body[at : at + draw(st.integers(0, 2))] = new
    return bytes(body)


def split() -> Split:
    core = installed().module
    assert core is not None
    found: Split = core.split
    return found


def decoded(body: bytes) -> list[Any]:
    if body.lstrip()[:1] == b"[":
        return envelope._lists(body)
    return [envelope._single(body)]


@given(bodies())
@example(b'{"id":1,"result":"\\ud800"}')
@example(b'{"id":1,"result":"\\ud83d\\ude00"}')
@example(b'{"id":1,"result":1e400}')
@example(b'{"i\\u0064":1,"result":-0}')
@example(b'{"id":-0,"result":1}')
@example(b'{"id":1,"result":' + b"[" * 62 + b"]" * 62 + b"}")
def test_both_find_the_same_results(body: bytes) -> None:
    found = split()(body)
    if found is None:
        return
    expected = decoded(body)
    assert [(at, body[start:end]) for at, start, end in found] == [
        (each.id, bytes(each.result)) for each in expected
    ]
    errors = [error for each in expected for error in (each.error, each.bare_error)]
    assert not any(map(envelope._error_bytes, errors))


@given(bodies(), st.sampled_from([200, 429, 500]))
def test_both_read_the_same_of_a_response(body: bytes, status: int) -> None:
    large = body + b" " * envelope._LARGE
    with pytest.MonkeyPatch.context() as patch:
        found = outcome(large, status)
        patch.setattr(envelope, "installed", lambda: Core(None))
        assert found == outcome(large, status)


def outcome(body: bytes, status: int) -> Any:
    try:
        reply: BatchReply = envelope.read(body, status, (0, 1, 2))
    except MalformedReply as error:
        return str(error)
    return {at: bytes(raw) for at, raw in reply.results.items()}, reply.errors


def test_usual_answers_are_not_left_to_the_decoders() -> None:
    blocks = [{"jsonrpc": "2.0", "id": at, "result": {"hash": "0x1"}} for at in (3, 1, 2)]
    assert split()(json.dumps(blocks).encode()) is not None
    assert split()(json.dumps(blocks[0]).encode()) is not None
    assert split()(json.dumps({**blocks[0], "error": None}).encode()) is not None


def test_what_only_the_decoders_accept_is_left_to_them() -> None:
    deep = b'{"id":1,"result":' + b"[" * 70 + b"]" * 70 + b"}"
    assert split()(deep) is None
    assert len(decoded(deep)) == 1
    with pytest.raises(UNREADABLE):
        decoded(b'{"id":1,"result":01}')
