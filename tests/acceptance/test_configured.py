"""The effect of `gapless.toml` and the environment on retries, slots and queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.commands import Commands
from tests.acceptance.test_devnode import devnode

FILE = """
queue = "backlog"

[retry]
base = "10s"
limit = 2
schedule = [1, 2]

[worker]
slots = {backlog = 2, priority = 1}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with devnode("--blocks", "100", "--cache", tmp_path_factory.mktemp("cache")) as running:
        yield running


@pytest.fixture
def gapless(sqlite_gapless: Commands) -> Commands:
    (sqlite_gapless.folder / "gapless.toml").write_text(FILE)
    return sqlite_gapless


def retry(gapless: Commands, job: str, *arguments: str, **environment: str) -> Any:
    """The retry policy of a backfill started with these arguments."""
    start = ("backfill", "start", "--job", f"jobs:{job}", "--detach", "--range", "0:9", "--json")
    started = gapless(*start, *arguments, env=environment).json
    return {name: started["retry"][name] for name in ("kind", "base", "retries", "delays")}


def test_flags_override_variables_and_variables_override_the_file(gapless: Commands) -> None:
    backoff = {"kind": "backoff", "base": 10.0, "retries": 2, "delays": []}
    assert retry(gapless, "copy") == backoff
    assert retry(gapless, "copy", GAPLESS_RETRY_BASE="1m") == {**backoff, "base": 60.0}
    flag = ("--retry-base", "5s")
    assert retry(gapless, "copy", *flag, GAPLESS_RETRY_BASE="1m") == {**backoff, "base": 5.0}
    assert retry(gapless, "copy", "--retry", "schedule")["delays"] == [1.0, 2.0]
    (gapless.folder / "gapless.toml").unlink()
    assert retry(gapless, "copy") == {**backoff, "base": 120.0, "retries": 5}


def test_numbers_chosen_by_a_job_are_kept(gapless: Commands) -> None:
    assert retry(gapless, "patient") == {
        "kind": "backoff", "base": 1.0, "retries": 7, "delays": [],
    }  # fmt: skip


def test_a_fetch_uses_the_numbers_and_the_queue_too(gapless: Commands, url: str) -> None:
    (gapless.folder / "gapless.toml").write_text(f'{FILE}[sinks.chain]\nurl = "chain.db"\n')
    fetch = ("fetch", "custom", "0:9", "--rpc", "env:NODE", "--detach", "--json")
    created = gapless(*fetch, env={"NODE": url}).json
    assert (created["retry"]["base"], created["retry"]["retries"]) == (10.0, 2)
    assert created["queue"] == "backlog"
    again = gapless(*fetch, "--retry", "schedule", "--refetch", env={"NODE": url}).json
    assert again["retry"]["delays"] == [1.0, 2.0]


def test_queue_and_slots_work_together(gapless: Commands) -> None:
    ours = gapless.start("copy")
    other = gapless.start("copy", "--queue", "other")
    assert gapless.show(ours)["queue"] == "backlog"
    worker = gapless("worker", "--until-idle", "--poll", "50ms").stderr
    assert "slots={'backlog': 2, 'priority': 1}" in worker
    assert gapless.show(ours)["state"] == "SUCCEEDED"
    assert gapless.show(other)["state"] == "PENDING"
    by_variable = gapless("worker", "--until-idle", env={"GAPLESS_SLOTS": "other=1"}).stderr
    assert "slots={'other': 1}" in by_variable
    assert gapless.show(other)["state"] == "SUCCEEDED"


def test_the_default_slots_serve_the_configured_queue(sqlite_gapless: Commands) -> None:
    said = sqlite_gapless("worker", "--until-idle", env={"GAPLESS_QUEUE": "history"}).stderr
    assert "slots={'history': 4}" in said


@pytest.mark.parametrize("command", ["worker", "backfill ls", "fetch custom 0:9"])
def test_a_misspelled_key_is_an_error(sqlite_gapless: Commands, command: str) -> None:
    (sqlite_gapless.folder / "gapless.toml").write_text("[worker]\nslot = 3\n")
    environment = {"GAPLESS_LEDGER": ""}
    said = sqlite_gapless.refused(*command.split(), env=environment)
    assert "error: `gapless.toml`: unknown key `slot` in `[worker]`" in said
    assert "hint: did you mean `slots`?" in said
