"""Every recorded refusal of a real provider leads to the right reaction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gapless.providers.provider_errors import Reaction, Refusal, classify

RECORDED = Path(__file__).parents[3] / "shared" / "data" / "rpc_errors.json"
EXPECTED = {
    "range": Reaction.SMALLER_RANGE,
    "range+size": Reaction.SMALLER_RANGE,
    "size": Reaction.SMALLER_RANGE,
    "results": Reaction.SMALLER_RANGE,
    "rate": Reaction.SLOW_DOWN,
    "quota": Reaction.SWITCH,
    "rate/quota": Reaction.SWITCH,
    "batch": Reaction.SMALLER_BATCH,
    "pruned": Reaction.ELSEWHERE,
    "head": Reaction.LATER,
    "reorg": Reaction.LATER,
    "notfound": Reaction.ABSENT,
    "method": Reaction.OTHER_METHOD,
    "overload": Reaction.AGAIN,
    "internal": Reaction.AGAIN,
    "params": Reaction.GIVE_UP,
}
NO_REFUSAL = ("{}", "null")  # an empty answer is recognised by what it lacks


def recorded() -> list[dict[str, Any]]:
    if not RECORDED.exists():
        return []
    errors: list[dict[str, Any]] = json.loads(RECORDED.read_text())["errors"]
    return [
        error
        for error in errors
        if not error["kind"].startswith("SILENT") and error["message"] not in NO_REFUSAL
    ]


def of(error: dict[str, Any]) -> Refusal:
    code, status = (
        value if isinstance(value, int) else None for value in (error["code"], error["http_status"])
    )
    data = error["suggested_range_rule"] if error["message"] == "invalid params" else ""
    return classify(f"{error['message']} {data}", code, status)


@pytest.mark.skipif(not RECORDED.exists(), reason="there are no recorded provider errors")
@pytest.mark.parametrize(
    "error", recorded(), ids=lambda error: f"{error['provider']}-{error['kind']}"
)
def test_a_recorded_refusal_is_classified(error: dict[str, Any]) -> None:
    refusal = of(error)
    assert refusal.reaction is EXPECTED[error["kind"]]
    limit = (error["limit"] or {}).get("blocks")
    if error["kind"] == "range" and str(limit) in error["message"].replace(",", ""):
        assert refusal.most == limit


@pytest.mark.parametrize(
    ("message", "refusal"),
    [
        (
            "block range too large (2000), maximum allowed is 1000 blocks",
            Refusal(Reaction.SMALLER_RANGE, 1000),
        ),
        (
            "up to a 2K block range … this block range should work: [0x87fe9, 0x0]",
            Refusal(Reaction.SMALLER_RANGE, 2000, (0, 0x87FE9)),
        ),
        (
            "max results 20000, retry with the range 6000000-6000509",
            Refusal(Reaction.SMALLER_RANGE, None, (6_000_000, 6_000_509)),
        ),
        ("the query server is suspended for 5 s, request rate exceeded", None),
        ("", Refusal(Reaction.AGAIN, recognized=False)),
        ("Batch of more than 3 requests are not allowed", Refusal(Reaction.SMALLER_BATCH, 3)),
    ],
)
def test_numbers_are_read_from_the_message(message: str, refusal: Refusal | None) -> None:
    assert classify(message) == (refusal or Refusal(Reaction.SLOW_DOWN, wait_seconds=5.0))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("the method eth_getBlockReceipts is not supported", -32000),
        ("eth_getBlockReceipts is not available on the Free tier", -32000),
        ("rpc method is not whitelisted", -32000),
        ("this request is not supported", -32604),
        ("", -32004),
    ],
)
def test_a_method_that_is_not_offered(message: str, code: int) -> None:
    assert classify(message, code).reaction is Reaction.OTHER_METHOD


@pytest.mark.parametrize(
    ("message", "reaction"),
    [
        ("Batch calls are not supported", Reaction.SMALLER_BATCH),
        ("batch requests are not allowed on this plan", Reaction.SMALLER_BATCH),
        ("history is not available for this method", Reaction.ELSEWHERE),
        ("eth_getLogs: block range is too large, larger ranges are not allowed",
         Reaction.SMALLER_RANGE),
        ("eth_getLogs with a range of more than 10 blocks is not supported",
         Reaction.SMALLER_RANGE),
        ("eth_getBlockByNumber: block 5 is not available", Reaction.AGAIN),
        ("TAG safe not supported", Reaction.GIVE_UP),
    ],
)  # fmt: skip
def test_messages_that_only_look_like_a_missing_method(message: str, reaction: Reaction) -> None:
    assert classify(message, -32000).reaction is reaction


def test_without_a_known_message_code_and_status_decide() -> None:
    assert classify("", -32601).reaction is Reaction.OTHER_METHOD
    assert classify("", 4444).reaction is Reaction.ELSEWHERE
    assert classify("", None, 429).reaction is Reaction.SLOW_DOWN
    assert classify("", -32005, 429).reaction is Reaction.SLOW_DOWN
    assert classify("", None, 413).reaction is Reaction.SMALLER_RANGE
