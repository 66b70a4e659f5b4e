"""First contact: a reason not to use an endpoint is reported at once; slowness is not one."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

import gapless
from gapless.blocks.request import build_request
from gapless.blocks.session import open_fetch
from gapless.config import load
from gapless.core.backfill import State
from gapless.core.errors import Unavailable
from gapless.devnode import Chain, DevNode, Pace
from gapless.devnode.wire import Reply
from gapless.providers import Absent
from tests.unit.rpc.nodes import KEY, Outspoken

AT_ONCE = 2.0  # seconds
PEM = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgM2F7Pyp8dfJ8UlQQ
8nH++6EX3Cjje4DEwJpZdVwI7uyhRANCAASsnE6S/VGG7KK+s1v0M+lgfTXuXjXP
6GHYFhe5aG/oBQkuOLx5FFhsM66hM68524QXsD0c3+T9utjH7IW8VXLd
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBgDCCASWgAwIBAgIUS2oTVDRomkq/PNRq3zTtA5cmBcQwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTExNjE1MDI1MFoYDzIxMjYxMDIz
MTUwMjUwWjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASsnE6S/VGG7KK+s1v0M+lgfTXuXjXP6GHYFhe5aG/oBQkuOLx5FFhs
M66hM68524QXsD0c3+T9utjH7IW8VXLdo1MwUTAdBgNVHQ4EFgQUd8nLGgy3CkVp
0bT4UnjbB8sxhSMwHwYDVR0jBBgwFoAUd8nLGgy3CkVp0bT4UnjbB8sxhSMwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEA6i0WNgeU5mwtKFOPg1+u
hPs7srdzJkCJxfRxBT2c32UCIQDY67H12X7OK/xop5MyNh5nkQ0UQUdi5cyAByBN
IOydRQ==
-----END CERTIFICATE-----
"""  # for a server that only these tests use


@asynccontextmanager
async def secure_server(folder: Path) -> AsyncIterator[int]:
    """A server that only accepts secure connections; its port."""
    (folder / "server.pem").write_text(PEM)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


def free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind(("127.0.0.1", 0))
        port: int = candidate.getsockname()[1]
        return port


async def bad_url(kind: str, chain: Chain, stack: AsyncExitStack, folder: Path) -> str:
    """The URL of an endpoint that cannot be used."""
    if kind.isdigit():
        node = Outspoken(chain, lambda _: Reply(b"no", int(kind)))
        return (await stack.enter_async_context(node)).url
    if kind == "TLS to a plain port":
        plain = await stack.enter_async_context(DevNode(chain))
        return plain.url.replace("http:", "https:")
    if kind in ("plain to a TLS port", "unknown certificate"):
        port = await stack.enter_async_context(secure_server(folder))
        return f"{'http' if kind.startswith('plain') else 'https'}://127.0.0.1:{port}"
    if kind == "refused":
        return f"http://127.0.0.1:{free_port()}"
    return "http://no-such-host.invalid"


BAD = [
    ("401", "HTTP 401", "Is the API key still valid?"),
    ("403", "HTTP 403", "Is the API key still valid?"),
    ("404", "HTTP 404", "Is this the URL of a JSON-RPC node?"),
    ("TLS to a plain port", "TLS handshake failed", "Does this port expect `http://`?"),
    ("plain to a TLS port", "the connection was lost", "Does this port expect `https://`?"),
    (
        "unknown certificate",
        "invalid TLS certificate",
        "Is the certificate issued for this host name?",
    ),
    ("refused", "no connection (connection refused)", "Is a node running at this address?"),
    ("unknown host", "unknown host", "Is the host name spelled correctly?"),
]


async def fetched(folder: Path, *urls: str) -> gapless.FetchResult:
    ledger = f"sqlite:///{folder}/ledger.db"
    return await gapless.fetch("custom", "0:9", rpc=urls, to=f"{folder}/chain.db", ledger=ledger)


@pytest.mark.parametrize(("kind", "trouble", "hint"), BAD)
async def test_a_definite_refusal_ends_it_at_once(
    chain: Chain, tmp_path: Path, kind: str, trouble: str, hint: str
) -> None:
    async with AsyncExitStack() as stack:
        url = await bad_url(kind, chain, stack, tmp_path)
        began = monotonic()
        with pytest.raises(Unavailable) as problem:
            await fetched(tmp_path, f"{url}/{KEY}")
        assert monotonic() - began < AT_ONCE
    name = url.partition("://")[2]
    assert str(problem.value).startswith(f"endpoint `{name}` cannot be used: {trouble}")
    assert problem.value.hint == hint
    assert not (tmp_path / "chain.db").exists()


async def test_several_endpoints_are_all_named(chain: Chain, tmp_path: Path) -> None:
    async with Outspoken(chain, lambda _: Reply(b"no", 401)) as node:
        denied, gone = node.url.partition("://")[2], f"127.0.0.1:{free_port()}"
        with pytest.raises(Unavailable) as problem:
            await fetched(tmp_path, f"http://{denied}/{KEY}", f"http://{gone}/{KEY}")
    assert f"`{denied}` (HTTP 401 no)" in str(problem.value)
    assert f"`{gone}` (no connection (connection refused))" in str(problem.value)
    assert f"`{denied}`: Is the API key still valid?" in (problem.value.hint or "")
    assert f"`{gone}`: Is a node running at this address?" in (problem.value.hint or "")


@pytest.mark.parametrize("kind", [kind for kind, *_ in BAD])
async def test_one_good_endpoint_is_enough(chain: Chain, tmp_path: Path, kind: str) -> None:
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(DevNode(chain))
        bad = await bad_url(kind, chain, stack, tmp_path)
        assert (await fetched(tmp_path, bad, node.url)).state is State.SUCCEEDED


async def test_a_slow_endpoint_is_waited_for(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even beyond the patience, as long as no other one answers."""
    monkeypatch.setattr("gapless.blocks.session.FIRST_PATIENCE", 0.2)
    async with DevNode(chain, pace=Pace(latency=0.5)) as slow:
        gone = f"http://127.0.0.1:{free_port()}"
        assert (await fetched(tmp_path, gone, slow.url)).state is State.SUCCEEDED


async def test_a_hanging_endpoint_does_not_delay_the_others(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.blocks.session.FIRST_PATIENCE", 0.5)
    async with DevNode(chain, faults="timeout=1") as hanging, DevNode(chain) as node:
        name = hanging.url.partition("://")[2]
        urls = (hanging.url, node.url)
        wish, places = build_request(load(), "custom", "0:9", urls, f"{tmp_path}/chain.db", {})
        async with open_fetch(wish, places.config, f"sqlite:///{tmp_path}/ledger.db") as fetching:
            assert fetching.absent == [Absent(name, "no answer within 0.5 s")]
