"""A provider may repeat our key, in any encoding: nobody else gets to see it."""

from __future__ import annotations

import logging
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

import gapless
from gapless.blocks.block_pipeline import endpoints_of
from gapless.blocks.targets import targets_of
from gapless.chains import find_network
from gapless.cli import render_fetch as texts
from gapless.config import Config
from gapless.core.backfill import State
from gapless.devnode import Chain, DevNode
from gapless.devnode.wire import Reply
from gapless.ledger import open_ledger
from gapless.telemetry import metrics
from gapless.telemetry.lines import formatter
from gapless.views.fetch import fetch_view
from tests.unit.rpc.nodes import Outspoken, error

KEYS = ("Sh0rt", "L0nger-K3y+0123456789")


def forms(key: str) -> list[str]:
    raw = key.encode()
    encoded = (b64encode(raw), urlsafe_b64encode(raw), raw.hex().encode())
    return [key, quote(key, safe=""), *(each.decode().rstrip("=") for each in encoded)]


def repeated(key: str) -> str:
    """What a provider may say that repeats a key; the text is cut off within the key."""
    said = f"{' '.join(forms(key))} {key.lower()} {key.upper()} {b64encode(key.encode()).decode()}"
    return f"{said} {'x ' * 500}"[: 1000 - len(key) // 2] + key


def in_files(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.rglob("*") if each.is_file())


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "reply",
    [
        lambda words: error(f"invalid request {words}", -32600),
        lambda words: error(f"internal error {words}"),
        lambda words: error(f"monthly capacity of {words}", 0, 403),
        lambda words: Reply(words.encode(), 401),
        lambda words: Reply(words.encode()),
    ],
    ids=["invalid", "internal", "quota", "denied", "unreadable"],
)
async def test_a_provider_that_repeats_the_key(
    chain: Chain,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    reply: Callable[[str], Reply],
) -> None:
    """Only for receipts, so that the fetch starts and its chunks fail."""
    monkeypatch.setattr("gapless.blocks.session.PATIENCE", 0.2)
    caplog.set_level(logging.DEBUG, "gapless")

    def answering(asked: Any) -> Reply | None:
        listed = asked if isinstance(asked, list) else [asked]
        late = any(each["method"] == "eth_getBlockReceipts" for each in listed)
        return reply(repeated(key)) if late else None

    async with Outspoken(chain, answering) as node:
        result = await gapless.fetch(
            "custom",
            "0:9",
            rpc=[f"{node.url}/v2/{quote(key, safe='')}"],
            to=f"{tmp_path}/chain.db",
            ledger=f"sqlite:///{tmp_path}/ledger.db",
            retry="halt",
        )
    assert result.state is State.FAILED
    lines = [formatter(as_json=True).format(each) for each in caplog.records]
    view = fetch_view(result, "ledger.db")
    shown = [
        *(f"{result!r}", texts.summary(view), f"{texts.failure(view)}", *lines),
        msgspec.json.encode(view).decode(),
        msgspec.json.encode(metrics.snapshot()).decode(),
    ]
    kept = in_files(tmp_path)
    halves = [key[: len(key) // 2]] if key is KEYS[1] else []  # half a short key is in any text
    for form in [*forms(key), *halves]:
        assert [text for text in shown if form.lower() in text.lower()] == []
        assert form.lower().encode() not in kept.lower()


async def test_two_keys_on_one_host_do_not_share_learned_limits(
    chain: Chain, tmp_path: Path
) -> None:
    ledger = f"sqlite:///{tmp_path}/ledger.db"

    async def learned() -> dict[str, Any]:
        opened = await open_ledger(ledger)
        try:
            return await opened.profiles("custom")
        finally:
            await opened.close()

    async with DevNode(chain) as node:
        for key in KEYS:
            to = f"{tmp_path}/{key[0]}.db"
            url = f"{node.url}/{quote(key, safe='')}"
            await gapless.fetch("custom", "0:9", rpc=[url], to=to, ledger=ledger)
        known = await learned()
        assert len(known) == 2
        assert not [name for name in known if "127.0.0.1" in name]


async def test_learned_limits_are_kept_by_endpoint_name(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    async with DevNode(chain) as node:
        monkeypatch.setenv("A_NODE", f"{node.url}/{KEYS[1]}")
        to = f"{tmp_path}/chain.db"
        await gapless.fetch("custom", "0:9", rpc=["env:A_NODE"], to=to, ledger=ledger)
    opened = await open_ledger(ledger)
    assert [*await opened.profiles("custom")] == ["env:A_NODE"]
    await opened.close()


def test_a_host_is_never_mistaken_for_a_name() -> None:
    network = find_network("custom")
    urls = ("http://localhost/a", "https://localhost/b", "http://localhost/c", "http://h.io/")
    places = targets_of(Config(), network, urls, "x.db", None)
    assert places.endpoints == ("localhost:80", "localhost:443", "localhost:80-2", "h.io")
    keys = {spec.key for spec in endpoints_of(places.config, places.endpoints)}
    assert len(keys - {*places.endpoints}) == 4
