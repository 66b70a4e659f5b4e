"""One configuration from file, environment and flags; unknown keys are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless import config
from gapless.core.errors import UsageError
from gapless.core.retry import RetryPolicy

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


def test_an_endpoint_may_have_a_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    found = config.parse(
        "[endpoints.a]\nurl = 'https://x/KEY'\nws = 'env:A_WS'\n[endpoints.b]\nurl = 'http://y'"
    )
    assert found.endpoint("b").ws is None
    with pytest.raises(UsageError, match="`A_WS` is not set"):
        found.endpoint("a")
    monkeypatch.setenv("A_WS", "wss://x/SECRET")
    assert found.endpoint("a").ws == "wss://x/SECRET"
    assert "wss://x/SECRET" in found.urls()
    assert "SECRET" not in repr(found.endpoint("a"))


def test_an_endpoint_may_have_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = config.parse(
        "[endpoints.a]\nurl = 'https://x'\nheaders = { X-Key = 'env:A_KEY', B = 'S3CRET' }\n"
    )
    with pytest.raises(UsageError, match="`A_KEY` is not set"):
        found.endpoint("a")
    assert found.header_values() == ["S3CRET"]
    monkeypatch.setenv("A_KEY", "SECRET")
    assert found.endpoint("a").headers == {"X-Key": "SECRET", "B": "S3CRET"}
    assert found.header_values() == ["SECRET", "S3CRET"]
    assert "SECRET" not in repr(found) + repr(found.endpoint("a"))
    with pytest.raises(UsageError, match="`daily_calls` must be at least 1"):
        config.parse("[endpoints.a]\nurl = 'https://x'\ndaily_calls = 0")


def test_a_file_above_is_found_and_another_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "gapless.toml").write_text("[fetch]\nworkers = 3\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert config.load({}, below).fetch.workers == 3
    (below / "other.toml").write_text("[fetch]\nworkers = 4\n")
    named = {"GAPLESS_CONFIG": str(below / "other.toml")}
    assert config.load(named, below).fetch.workers == 4
    with pytest.raises(UsageError, match="does not name a file"):
        config.load({"GAPLESS_CONFIG": str(tmp_path / "none")}, below)


def test_a_deleted_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    with pytest.raises(UsageError, match="the current folder no longer exists") as gone:
        config.load({})
    assert gone.value.hint


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
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


def test_variables_of_gapless_override_common_ones(tmp_path: Path) -> None:
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
def test_invalid_values_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        config.parse(text)


@pytest.mark.parametrize("value", ["many", "-1", "1.5", "0"])
def test_a_number_in_the_environment_must_be_a_number(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageError, match=r"BACKFILL_WORKERS|workers"):
        config.load({"BACKFILL_WORKERS": value}, tmp_path)


def test_names_are_resolved_and_unknown_names_refused(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_paths_are_relative_to_the_file(tmp_path: Path, target: str, expected: str) -> None:
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


def test_text_that_may_be_a_url_without_its_scheme_is_not_repeated() -> None:
    with pytest.raises(
        UsageError, match="neither a URL nor the name of a known endpoint"
    ) as refused:
        config.Config().endpoint("node.example/v2/S3CRETKEY")
    assert "S3CRETKEY" not in f"{refused.value} {refused.value.hint}"


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("[endpoint.main]\nurl = 'http://x'", "unknown key `endpoint`", "`endpoints`"),
        ("ledgr = 'x.db'", "unknown key `ledgr`", "`ledger`"),
        ("[fetch]\nwrokers = 1", "unknown key `wrokers` in `[fetch]`", "`workers`"),
        ("[retry]\nlimits = 1", "unknown key `limits` in `[retry]`", "`limit`"),
        ("[worker]\nslot = 1", "unknown key `slot` in `[worker]`", "`slots`"),
        (
            "[endpoints.main]\nurll = 'http://x/KEY'",
            "unknown key `urll` in `[endpoints.main]`",
            "`url`",
        ),
        (
            "[endpoints.main]\nurl = 'http://x'\nnetwork = 'etherium'",
            "there is no network `etherium` (of the endpoint `main`)",
            "`ethereum`",
        ),
    ],
)
def test_a_misspelled_name_comes_with_a_suggestion(text: str, error: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        config.parse(text)
    assert str(refused.value) == f"`gapless.toml`: {error}"
    assert refused.value.hint == f"did you mean {hint}?"


def test_an_unknown_key_without_a_similar_one_lists_all_keys() -> None:
    with pytest.raises(UsageError, match=r"unknown key `colour` in `\[retry\]`") as refused:
        config.parse("[retry]\ncolour = 1")
    assert refused.value.hint == "known are base, max_delay, jitter, limit, schedule"


def test_a_file_in_another_folder_is_named_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "gapless.toml"
    file.write_text("ledgr = 'x.db'")
    with pytest.raises(UsageError) as refused:
        config.load({}, tmp_path)
    assert str(refused.value) == f"`{file}`: unknown key `ledgr`"
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot read"):
        config.load({}, tmp_path)


def test_a_misspelled_endpoint_or_sink_comes_with_a_suggestion(tmp_path: Path) -> None:
    found = config.parse(TEXT)
    with pytest.raises(UsageError, match="no endpoint `archiv`") as refused:
        found.endpoint("archiv")
    assert refused.value.hint == "did you mean `archive`?"
    with pytest.raises(UsageError, match="no sink `warehuose`") as refused:
        found.refuse_misspelled_sink("warehuose")
    assert refused.value.hint == "did you mean `warehouse`?"
    for fine in ("warehouse", "warehous.db", f"{tmp_path}", "lake"):
        found.refuse_misspelled_sink(fine)


class TestRetry:
    TEXT = """
    [retry]
    base = "10s"
    max_delay = 60
    jitter = 0.1
    limit = 2
    schedule = [1, "2m"]
    """

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [
            (
                RetryPolicy.backoff(),
                RetryPolicy.backoff(base=10, max_delay=60, jitter=0.1, retries=2),
            ),
            (RetryPolicy.unbounded(), RetryPolicy.unbounded(base=10, max_delay=60, jitter=0.1)),
            (RetryPolicy.schedule(), RetryPolicy.schedule(1, 120)),
            (RetryPolicy.halt(), RetryPolicy.halt()),
        ],
    )
    def test_each_policy_takes_its_own_numbers(
        self, policy: RetryPolicy, expected: RetryPolicy
    ) -> None:
        assert config.parse(self.TEXT).retry.applied(policy) == expected

    def test_the_environment_overrides_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "gapless.toml").write_text(self.TEXT)
        variables = {
            "GAPLESS_RETRY_BASE": "1s",
            "GAPLESS_RETRY_MAX_DELAY": "2m",
            "GAPLESS_RETRY_JITTER": "0.5",
            "GAPLESS_RETRY_LIMIT": "9",
            "GAPLESS_RETRY_SCHEDULE": "3s,1h",
        }
        found = config.load(variables, tmp_path).retry
        backoff = RetryPolicy.backoff(base=1, max_delay=120, jitter=0.5, retries=9)
        assert found.applied(RetryPolicy.backoff()) == backoff
        assert found.applied(RetryPolicy.schedule()) == RetryPolicy.schedule(3, 3600)

    def test_a_long_base_raises_the_longest_delay(self) -> None:
        found = config.parse("[retry]\nbase = '2h'").retry
        assert found.applied(RetryPolicy.backoff()).max_delay == 7200

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("base = 'soon'", "`gapless.toml`: `soon` is not a duration"),
            ("max_delay = 1", "max_delay must not be below base"),
            ("jitter = 2", "jitter must lie between 0 and 1"),
            ("schedule = []", "a schedule needs delays"),
            ("limit = 'many'", "Expected `int | null`, got `str` - at `retry.limit`"),
        ],
    )
    def test_invalid_numbers(self, text: str, error: str) -> None:
        with pytest.raises(UsageError) as refused:
            config.parse(f"[retry]\n{text}")
        assert error in str(refused.value)

    def test_an_invalid_variable_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="`GAPLESS_RETRY_BASE`: `soon` is not a duration"):
            config.load({"GAPLESS_RETRY_BASE": "soon"}, tmp_path)
        with pytest.raises(UsageError, match="`GAPLESS_RETRY_JITTER` is `much`"):
            config.load({"GAPLESS_RETRY_JITTER": "much"}, tmp_path)


class TestSlotsAndQueue:
    @pytest.mark.parametrize(
        ("text", "slots"),
        [
            ("", "default=4"),
            ("queue = 'backlog'", "backlog=4"),
            ("worker.slots = {backlog = 13, priority = 1}", "backlog=13,priority=1"),
            ("worker.slots = 'backlog=2'", "backlog=2"),
            ("worker.slots = 7", "7"),
        ],
    )
    def test_forms_of_slots(self, text: str, slots: str) -> None:
        assert config.parse(text).slots == slots

    def test_the_environment_overrides_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "gapless.toml").write_text("queue = 'a'\nworker.slots = {a = 1}\n")
        found = config.load({"GAPLESS_SLOTS": "b=2", "GAPLESS_QUEUE": "b"}, tmp_path)
        assert (found.queue, found.slots) == ("b", "b=2")

    def test_a_queue_needs_a_name(self) -> None:
        with pytest.raises(UsageError, match=r"`gapless\.toml`: `queue` is `a b`"):
            config.parse("queue = 'a b'")
