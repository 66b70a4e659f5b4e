"""Response bodies that are compressed or damaged, and the `Retry-After` header."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.devnode import Chain
from gapless.devnode.wire import Reply
from gapless.providers import http
from gapless.providers.http import Http, decompressed, retry_after
from gapless.providers.transport import Response, Timeouts, TransportFailure
from tests.unit.rpc.nodes import Outspoken

BODY = b'{"jsonrpc":"2.0","id":0,"result":"0x1"}' * 50
PACKED = gzip.compress(BODY)


async def given_retry_after(chain: Chain, value: str) -> float | None:
    reply = Reply(b"", 429, (("Retry-After", value),))
    async with Outspoken(chain, lambda _: reply) as node, Http(Timeouts()) as client:
        response = await client.post(node.url, b"{}", headers={}, calls=1, fresh=False)
        assert response.status == 429
        return response.retry_after


@pytest.mark.parametrize(
    ("value", "seconds"), [("7", 7.0), ("0", 0.0), ("1.5", 1.5), ("soon", None), ("-3", None)]
)
async def test_retry_after_in_seconds(chain: Chain, value: str, seconds: float | None) -> None:
    assert await given_retry_after(chain, value) == seconds


@pytest.mark.parametrize(("ahead", "seconds"), [(90, 90.0), (-90, 0.0)])
async def test_retry_after_as_a_date(chain: Chain, ahead: int, seconds: float) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=ahead)
    found = await given_retry_after(chain, format_datetime(moment, usegmt=True))
    assert found == pytest.approx(seconds, abs=2)


@pytest.mark.parametrize(
    "value",
    [
        "9" * 400,
        "nan",
        "-1",
        "1e400",
        "Fri, 31 Dec 99999 23:59:59 GMT",
        "Fri, 31 Dec 9999 23:59:59 -9999",
        "Mon, 01 Jan 0001 00:00:00 +2359",
        "Mon, 01 Jan 2024 00:00:00 +99999999999999999999",
        "Mon, 99 Foo 2024 77:77:77 GMT",
        "\N{SUPERSCRIPT TWO}",
    ],
)
def test_an_absurd_retry_after_does_not_raise(value: str) -> None:
    found = retry_after({"retry-after": value})
    assert found is None or found >= 0


@given(st.text(max_size=60) | st.from_regex(r"\w{3}, \d{1,3} \w{3} \d{1,6} [\d:]{5,8} [+-]\d{1,9}"))
def test_no_retry_after_raises(value: str) -> None:
    found = retry_after({"retry-after": value})
    assert found is None or found >= 0


@pytest.mark.parametrize("encoding", ["", "identity", "gzip"])
def test_a_body_is_decompressed(encoding: str) -> None:
    body = PACKED if encoding == "gzip" else BODY
    assert decompressed(Response(200, body, encoding, None)) == BODY


def test_a_body_may_be_compressed_in_several_pieces() -> None:
    packed = b"".join(gzip.compress(BODY[at : at + 700]) for at in range(0, len(BODY), 700))
    assert decompressed(Response(200, packed, "gzip", None)) == BODY


def test_decompressing_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_BYTES", len(BODY))
    assert decompressed(Response(200, PACKED, "gzip", None)) == BODY
    for bomb in (gzip.compress(BODY + b" "), gzip.compress(BODY) + gzip.compress(b" ")):
        with pytest.raises(TransportFailure, match="larger than"):
            decompressed(Response(200, bomb, "gzip", None))


async def test_a_body_without_end_is_cut_off(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Outspoken(chain, lambda _: Reply(BODY)) as node, Http(Timeouts()) as client:
        size = len((await client.post(node.url, b"{}", headers={}, calls=1, fresh=False)).body)
        monkeypatch.setattr(http, "MOST_BYTES", size)
        assert (
            len((await client.post(node.url, b"{}", headers={}, calls=1, fresh=False)).body) == size
        )
        monkeypatch.setattr(http, "MOST_BYTES", size - 1)
        with pytest.raises(TransportFailure, match="larger than"):
            await client.post(node.url, b"{}", headers={}, calls=1, fresh=False)


@given(st.integers(1, len(PACKED) - 1))
def test_half_a_compressed_body_is_an_error(size: int) -> None:
    with pytest.raises(TransportFailure, match="damaged"):
        decompressed(Response(200, PACKED[:size], "gzip", None))


@given(st.binary(min_size=1))
def test_a_body_that_is_not_compressed_at_all_is_an_error(body: bytes) -> None:
    for encoding in ("gzip", "br"):
        with pytest.raises(TransportFailure):
            decompressed(Response(200, body, encoding, None))
