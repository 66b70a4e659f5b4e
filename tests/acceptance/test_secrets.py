"""A URL in the wrong place: its secrets are never shown and never stored."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import pytest

from gapless.cli.app import gapless as tree
from tests import forks
from tests.acceptance.commands import PATIENCE, Commands

NOBODY = "127.0.0.1:1"
WEB_SECRETS = ("us3rs3cret", "pa55s3cret", "k3ys3cret", "qu3rys3cret")
WEB = "http://{}:{}@{nobody}/v2/{}?k={}".format(*WEB_SECRETS, nobody=NOBODY)
DATABASE_SECRETS = ("onepart", "twopart", "threepart", "fourpart", "fivepart")
DATABASE = f"postgresql://me:{'{}@{}/{}:{}#{}'.format(*DATABASE_SECRETS)}%40x@{NOBODY}/ledger"
WALLET = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
SHORT = f"http://{NOBODY}/q7z"

# What each command needs besides the one invalid value.
NEEDED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("fetch",): ("custom", "0:9", "--rpc", f"http://{NOBODY}", "--to", "chain.db"),
    ("follow", "start"): ("custom", "--rpc", f"http://{NOBODY}", "--to", "chain.db"),
    ("follow", "ls"): (),
    ("follow", "show"): ("f",),
    ("follow", "pause"): ("f",),
    ("follow", "resume"): ("f",),
    ("follow", "rm"): ("f",),
    ("wallet", "add"): (
        *(WALLET, "--network", "custom", "--rpc", f"http://{NOBODY}", "--to", "chain.db"),
    ),
    ("wallet", "sync"): (),
    ("wallet", "ls"): (),
    ("wallet", "show"): (WALLET,),
    ("wallet", "history"): (WALLET,),
    ("wallet", "balances"): (WALLET,),
    ("wallet", "rm"): (WALLET,),
    ("wallet", "label"): (WALLET, "mine"),
    ("wallet", "override"): (WALLET, "1:token:0:0", "in"),
    ("publish", "ls"): (),
    ("publish", "show"): ("p",),
    ("publish", "replay"): ("p", "0:9"),
    ("publish", "rm"): ("p",),
    ("verify",): ("chain.db",),
    ("gaps",): ("chain.db",),
    ("repair",): ("chain.db",),
    ("export",): ("chain.db", "--table", "blocks"),
    ("backfill", "start"): ("--job", "jobs:copy", "--range", "0:9", "--detach"),
    ("backfill", "ls"): (),
    ("backfill", "show"): ("bf",),
    ("backfill", "chunks"): ("bf",),
    ("backfill", "wait"): ("bf", "--timeout", "1s"),
    ("backfill", "pause"): ("bf",),
    ("backfill", "resume"): ("bf",),
    ("backfill", "cancel"): ("bf",),
    ("backfill", "retry-failed"): ("bf",),
    ("worker",): ("--until-idle",),
    ("queues", "ls"): (),
    ("queues", "pause"): ("backlog",),
    ("queues", "resume"): ("backlog",),
    ("dead", "ls"): (),
    ("dead", "show"): ("bf:0",),
    ("dead", "purge"): ("bf:0",),
    ("dead", "retry"): ("bf:0",),
    ("ledger", "check"): (),
    ("ledger", "compact"): (),
    ("ledger", "migrate"): (),
    ("networks",): (),
    ("init",): (),
    ("doctor",): ("--rpc", f"http://{NOBODY}"),
    ("devnode",): ("--port", "0"),
}
# With these, a node starts and runs; it prints nothing but its own address.
RUNS = {("devnode", "--cache"), ("devnode", "--missing")}


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[Any]:
    """All commands, with their paths."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, (*path, name))


COMMANDS = dict(commands(tree))


def positions(path: tuple[str, ...], url: str) -> Iterator[tuple[str, ...]]:
    """The command with the URL in place of each argument and option, and as an extra one."""
    needed = NEEDED[path]
    yield (*path, url)
    yield (*path, *needed, url)
    yield (*path, f"--{url}", *needed)
    at = 0
    for each in COMMANDS[path].params:
        if isinstance(each, click.Argument):
            yield (*path, *needed[:at], url, *needed[at + 1 :])
            at += 1
        elif not each.is_flag and (path[0], each.opts[0]) not in RUNS:
            yield (*path, *needed, each.opts[0], url)
            yield (*path, *needed, f"{each.opts[0]}={url}")


def forms(secret: str) -> set[bytes]:
    """A secret in every encoding that others may use, in lower case."""
    raw = secret.encode()
    encoded = {b64encode(raw), urlsafe_b64encode(raw), quote(secret, safe="").encode()}
    return {each.rstrip(b"=").lower() for each in {raw, raw.hex().encode(), *encoded}}


def leaks(text: bytes, secrets: tuple[str, ...]) -> list[str]:
    text = text.lower()
    return [secret for secret in secrets if any(form in text for form in forms(secret))]


def kept(folder: Path) -> bytes:
    """The names and contents of all files."""
    paths = [path for path in folder.rglob("*") if path.name != "jobs.py"]
    return b"".join(
        path.name.encode() + (path.read_bytes() if path.is_file() else b"") for path in paths
    )


def test_every_command_is_tried() -> None:
    assert NEEDED.keys() == COMMANDS.keys()


@pytest.mark.parametrize("path", NEEDED, ids="-".join)
def test_a_url_in_the_wrong_place(sqlite_gapless: Commands, path: tuple[str, ...]) -> None:
    gapless = sqlite_gapless
    found = []
    for url, secrets in ((WEB, WEB_SECRETS), (DATABASE, DATABASE_SECRETS), (SHORT, ("q7z",))):
        for arguments in positions(path, url):
            done = forks.run(
                arguments, cwd=gapless.folder, env=gapless.environment(), timeout=PATIENCE
            )
            if leaked := leaks((done.stdout + done.stderr).encode(), secrets):
                found.append((arguments, leaked, done.stdout, done.stderr))
            if url is not SHORT and (leaked := leaks(kept(gapless.folder), secrets)):
                pytest.fail(f"{arguments} has left {leaked} in a file")
    assert found == []
