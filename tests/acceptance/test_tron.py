"""TRON nodes from the command line: `devnode`, `doctor`, `fetch`, and keys in headers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.acceptance.commands import Commands
from tests.acceptance.test_devnode import devnode

KEY = "s3cr3t-tron-k3y-0123456789"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cache = tmp_path_factory.mktemp("cache")
    with devnode("--family", "tron", "--blocks", "150", "--cache", cache) as url:
        yield f"{url}/v2/{KEY}"


@pytest.fixture
def gapless(sqlite_gapless: Commands, node: str) -> Commands:
    """Commands in a folder whose configuration has a node with a key in its URL and a header."""
    (sqlite_gapless.folder / "gapless.toml").write_text(
        f"[endpoints.grid]\nurl = '{node}'\nnetwork = 'tron-custom'\nrps = 200\n"
        f"daily_calls = 100\nheaders = {{ TRON-PRO-API-KEY = '{KEY}' }}\n"
    )
    return sqlite_gapless


def assert_hidden(commands: Commands) -> None:
    """No file but the configuration contains the key."""
    for path in commands.folder.rglob("*"):
        if path.is_file() and path.name != "gapless.toml":
            assert KEY.encode() not in path.read_bytes(), path.name


def test_fetch_and_compare(gapless: Commands) -> None:
    planned = gapless("fetch", "tron-custom", "1:120", "--to", "chain.db", "--dry-run")
    assert "at 200 calls/s: 122 calls take at least 0.6s" in planned.stderr
    assert "with 100 calls a day: 122 calls take at least 1.2 days" in planned.stderr
    done = gapless("fetch", "tron-custom", "1:120", "--to", "chain.db")
    assert "120 tron_blocks" in done.stdout + done.stderr
    compared = gapless("verify", "chain.db", "--against", "grid")
    assert "compared" in compared.stderr
    assert_hidden(gapless)
    assert KEY not in done.stdout + done.stderr + compared.stdout + compared.stderr


def test_doctor_knows_tron_nodes(gapless: Commands) -> None:
    shown = gapless("doctor", "--rpc", "grid").stdout
    lines = dict(line.split("  ", 1) for line in shown.splitlines()[:12])
    assert lines["client"].strip() == "java-tron gapless-devnode"
    assert lines["finalized"].strip() == "131"
    assert lines["transaction infos"].strip() == lines["solid head"].strip() == "yes"
    assert "costs 1 call" in shown
    assert KEY not in shown


@pytest.mark.parametrize("option", [("--chain-id", "7"), ("--replay", ".")])
def test_options_that_only_evm_chains_have(
    sqlite_gapless: Commands, option: tuple[str, str]
) -> None:
    refused = sqlite_gapless("devnode", "--family", "tron", *option, code=2)
    assert "hint:" in refused.stderr


class Echo(BaseHTTPRequestHandler):
    """A provider that repeats the key that it was sent."""

    def do_POST(self) -> None:
        body = json.dumps({"Error": f"key {self.headers['TRON-PRO-API-KEY']} is not valid"})
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    "command",
    [
        ("fetch", "tron-custom", "1:9", "--to", "chain.db"),
        ("doctor", "--rpc", "grid"),
        ("doctor", "--rpc", "grid", "--network", "tron", "--json"),
    ],
    ids=["fetch", "doctor", "doctor as JSON"],
)
def test_a_key_in_a_header_is_never_shown_or_stored(
    sqlite_gapless: Commands, echo: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRON_KEY", KEY)
    (sqlite_gapless.folder / "gapless.toml").write_text(
        f"[endpoints.grid]\nurl = '{echo}'\nnetwork = 'tron-custom'\n"
        "headers = { TRON-PRO-API-KEY = 'env:TRON_KEY' }\n"
    )
    refused = sqlite_gapless(*command, code=2)
    said = refused.stdout + refused.stderr
    assert "is not valid" in said
    assert KEY not in said
    assert_hidden(sqlite_gapless)
