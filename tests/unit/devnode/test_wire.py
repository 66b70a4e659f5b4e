"""The part of HTTP that JSON-RPC clients use."""

from __future__ import annotations

import pytest

from gapless.devnode.wire import BadRequest, parsed

PLAIN = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n"


@pytest.mark.parametrize("text", [PLAIN, CHUNKED])
def test_a_request_is_returned_once_it_is_complete(text: bytes) -> None:
    for size in range(len(text)):
        assert parsed(bytearray(text[:size])) == (None, 0)
    request, size = parsed(bytearray(text + b"POST"))
    assert request is not None
    assert (request.method, request.path, request.body) == ("POST", "/", b"abc")
    assert size == len(text)


def test_a_client_may_wait_before_it_sends_the_body() -> None:
    head = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    assert parsed(bytearray(head)) == (None, 1)
    assert parsed(bytearray(head + b"a")) == (None, 0)


@pytest.mark.parametrize(
    "text",
    [
        b"nonsense\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
        b"x" * 70_000,
    ],
)
def test_invalid_http(text: bytes) -> None:
    with pytest.raises(BadRequest):
        parsed(bytearray(text))
