"""Log lines: an action with its fields, for people and programs, and never a secret."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gapless.telemetry import about, log, metrics
from gapless.telemetry.lines import _Lines, formatter

URL = "https://user:S3CRET@node.example:8545/v2/S3CRET?key=S3CRET"


class Lines(logging.Handler):
    """Every record, as lines in one format."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self.setFormatter(formatter(as_json=as_json))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def lines(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    handler = Lines(as_json=getattr(request, "param", True))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield handler.lines
    root.setLevel(before)
    root.removeHandler(handler)


def parsed(lines: list[str]) -> dict[str, Any]:
    (line,) = lines
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_has_action_level_time_and_fields(lines: list[str]) -> None:
    log(logging.WARNING, "chunk_failed", chunk="bf:1", fence=7, retry_in=0.5, slots={"a": 1})
    line = parsed(lines)
    when = datetime.fromisoformat(line.pop("timestamp"))
    assert timedelta(0) <= datetime.now(UTC) - when < timedelta(minutes=1)
    assert line == {
        "level": "warning",
        "action": "chunk_failed",
        "chunk": "bf:1",
        "fence": 7,
        "retry_in": 0.5,
        "slots": {"a": 1},
    }


@pytest.mark.parametrize("lines", [True, False], indirect=True)
def test_no_url_is_logged(lines: list[str]) -> None:
    try:
        raise ValueError(URL)
    except ValueError as error:
        log(logging.ERROR, "x", error=error, text=f"at {URL}", deep={URL: [(URL,), {URL}]})
        logging.getLogger("stranger").exception("asked %s", URL)
    assert len(lines) == 2
    assert "S3CRET" not in "".join(lines)
    assert "https://node.example:8545/…" in lines[0]
    assert "ValueError" in lines[1]


def test_a_line_of_another_library_names_its_logger(lines: list[str]) -> None:
    logging.getLogger("stranger").warning("%d and\n%s", 1, "two")
    line = parsed(lines)
    assert (line["logger"], line["message"]) == ("stranger", "1 and\ntwo")
    assert "action" not in line


@pytest.mark.parametrize("lines", [False], indirect=True)
def test_for_people_it_is_one_line_without_control_characters(lines: list[str]) -> None:
    log(logging.INFO, "job_unresolved", job="a:b", reason="it\nhas \x1b[2K")
    (line,) = lines
    when, rest = line.split(" ", 1)
    datetime.strptime(when, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert rest == "INFO job_unresolved job=a:b reason=it has \\x1b[2K"


async def test_fields_of_a_context_apply_to_everything_started_within(
    lines: list[str],
) -> None:
    async def work() -> None:
        log(logging.INFO, "within", height=3)

    with about(worker="w", chunk="none"):
        with about(chunk="c"):
            task = asyncio.create_task(work())
        await task
        log(logging.INFO, "behind")
    log(logging.INFO, "outside")
    fields = [{**json.loads(line), "timestamp": "", "level": ""} for line in lines]
    known = {"timestamp": "", "level": ""}
    assert fields == [
        {**known, "action": "within", "worker": "w", "chunk": "c", "height": 3},
        {**known, "action": "behind", "worker": "w", "chunk": "none"},
        {**known, "action": "outside"},
    ]


def test_a_line_is_counted_even_if_it_is_not_printed(lines: list[str]) -> None:
    before = metrics.ACTIONS.values.get(("chunk_completed",), 0)
    log(logging.DEBUG, "chunk_completed")
    assert metrics.ACTIONS.values[("chunk_completed",)] == before + 1
    assert lines == []


def test_importing_the_library_configures_nothing_and_imports_nothing_heavy() -> None:
    """What a program gets that imports everything needed to fetch and to run jobs."""
    program = (
        "import logging, sys, gapless; gapless.fetch, gapless.Engine;"
        "assert not logging.getLogger().handlers and not logging.getLogger('gapless').handlers;"
        "print([name for name in ('structlog', 'prometheus_client') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"[]\n", b"")


def test_a_job_that_closes_stderr_does_not_make_logging_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    handler = _Lines(closed.write, as_json=False)  # type: ignore[arg-type]
    handler.emit(logging.makeLogRecord({"msg": "unheard"}))
