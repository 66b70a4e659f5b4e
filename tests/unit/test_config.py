"""One configuration from file, environment and flags; what is not known is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless import config
from gapless.core.errors import UsageError

TEXT = """
ledger = "sqlite:///x.db"

[endpoints.archive]
url = "https://node.example/v2/SECRET"
network = "ethereum"
rps = 25

[endpoints.hidden]
url = "env:HIDDEN_RPC"

[sinks.warehouse]
url = "postgresql://user:SECRET@db.example/x"

[fetch]
workers = 16
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "gapless.toml").write_text(TEXT)
    found = config.load({}, tmp_path)
    assert found.ledger == f"sqlite:///{tmp_path}/x.db"
    assert found.endpoint("archive").rps == 25
    assert found.fetch.workers == 16
    assert found.fetch.batch_size == 100


def test_a_file_above_is_found_and_another_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "gapless.toml").write_text("[fetch]\nworkers = 3\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert config.load({}, below).fetch.workers == 3
    (below / "other.toml").write_text("[fetch]\nworkers = 4\n")
    named = {"GAPLESS_CONFIG": str(below / "other.toml")}
    assert config.load(named, below).fetch.workers == 4
    with pytest.raises(UsageError, match="names no file"):
        config.load({"GAPLESS_CONFIG": str(tmp_path / "none")}, below)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "gapless.toml").write_text(TEXT)
    found = config.load(
        {
            "GAPLESS_LEDGER": "sqlite:///y.db",
            "BACKFILL_WORKERS": "5",
            "BACKFILL_BATCH_SIZE": "50",
            "BACKFILL_START_HEIGHT": "10",
            "BACKFILL_END_HEIGHT": "20",
            "GAPLESS_VERIFY": "roots",
        },
        tmp_path,
    )
    assert (found.ledger, found.fetch.workers, found.fetch.batch_size) == ("sqlite:///y.db", 5, 50)
    assert (found.fetch.start_height, found.fetch.end_height) == (10, 20)
    assert found.fetch.verify == "roots"


def test_our_own_names_win_over_the_others(tmp_path: Path) -> None:
    both = {"BACKFILL_WORKERS": "5", "GAPLESS_WORKERS": "6"}
    assert config.load(both, tmp_path).fetch.workers == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wrokers = 1", "wrokers"),
        ("[fetch]\nwrokers = 1", "wrokers"),
        ("[endpoints.a]\nurl = 'http://x'\nkey = 1", "key"),
        ("[fetch]\nworkers = 0", "workers"),
        ("[fetch]\nworkers = 'many'", "workers"),
        ("[endpoints.'a b']\nurl = 'http://x'", "a b"),
        ("=", "gapless.toml"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        config.parse(text)


@pytest.mark.parametrize("value", ["many", "-1", "1.5", "0"])
def test_a_number_in_the_environment_must_be_one(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageError, match=r"BACKFILL_WORKERS|workers"):
        config.load({"BACKFILL_WORKERS": value}, tmp_path)


def test_names_are_resolved_and_unknown_ones_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = config.parse(TEXT)
    monkeypatch.setenv("HIDDEN_RPC", "https://hidden.example/KEY")
    assert found.endpoint("hidden").url == "https://hidden.example/KEY"
    assert found.endpoint("env:HIDDEN_RPC").url == "https://hidden.example/KEY"
    assert found.sink("warehouse").startswith("postgresql://")
    monkeypatch.delenv("HIDDEN_RPC")
    with pytest.raises(UsageError, match="HIDDEN_RPC"):
        found.endpoint("hidden")
    with pytest.raises(UsageError, match="archiv"):
        found.endpoint("archiv")
    with pytest.raises(UsageError, match="lake"):
        found.sink("lake")


def test_no_secret_is_shown() -> None:
    assert "SECRET" not in repr(config.parse(TEXT))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("chain.db", "{folder}/chain.db"),
        ("lake/", "{folder}/lake/"),
        ("/abs/chain.db", "/abs/chain.db"),
        ("sqlite:///chain.db?fk=off", "sqlite:///{folder}/chain.db?fk=off"),
        ("sqlite:////abs/chain.db", "sqlite:////abs/chain.db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("env:TARGET", "env:TARGET"),
    ],
)
def test_paths_are_those_of_the_file(tmp_path: Path, target: str, expected: str) -> None:
    (tmp_path / "gapless.toml").write_text(f"[sinks.s]\nurl = '{target}'\n")
    found = config.load({}, tmp_path).sinks["s"].url
    assert found == expected.format(folder=tmp_path)


def test_where_metrics_are_served(tmp_path: Path) -> None:
    assert config.load({}, tmp_path).metrics_port is None
    (tmp_path / "gapless.toml").write_text('metrics_port = 9464\nmetrics_host = "0.0.0.0"\n')
    found = config.load({}, tmp_path)
    assert (found.metrics_host, found.metrics_port) == ("0.0.0.0", 9464)
    found = config.load(
        {"GAPLESS_METRICS_PORT": "0", "GAPLESS_METRICS_HOST": "127.0.0.1"}, tmp_path
    )
    assert (found.metrics_host, found.metrics_port) == ("127.0.0.1", 0)
    with pytest.raises(UsageError, match="`metrics_port` is 65536"):
        config.load({"GAPLESS_METRICS_PORT": "65536"}, tmp_path)


def test_what_may_be_a_url_without_its_scheme_is_not_repeated() -> None:
    with pytest.raises(UsageError, match="neither a URL nor the name of a known endpoint") as told:
        config.Config().endpoint("node.example/v2/S3CRETKEY")
    assert "S3CRETKEY" not in f"{told.value} {told.value.hint}"
