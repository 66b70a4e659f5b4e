"""`gapless init`, and the effect of what it writes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gapless import config
from gapless.chains import networks
from tests import forks
from tests.acceptance.commands import PATIENCE


def init(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = forks.run(["init", *arguments], cwd=folder, env=os.environ, timeout=PATIENCE)
    assert done.returncode == code, done.stderr
    return done


def test_it_writes_a_valid_file(tmp_path: Path) -> None:
    done = init(tmp_path, "--network", "arbitrum-nova", "--to", "nova/")
    assert done.stdout == "gapless.toml\n"
    found = config.parse((tmp_path / "gapless.toml").read_text())
    assert found.endpoints["arbitrum-nova"].url == "env:ARBITRUM_NOVA_RPC"
    assert found.sinks["chain"].url == "nova/"
    assert found.fetch == config.Fetch()


def test_it_overwrites_nothing_unless_told_to(tmp_path: Path) -> None:
    file = tmp_path / "gapless.toml"
    file.write_text("# mine\n")
    done = init(tmp_path, code=2)
    assert "already exists" in done.stderr
    assert "hint: `--force`" in done.stderr
    assert file.read_text() == "# mine\n"
    init(tmp_path, "--force")
    assert "ethereum" in file.read_text()


@pytest.mark.parametrize("arguments", [["--network", "etherium"], ["--to", 'a".db']])
def test_invalid_arguments_write_nothing(tmp_path: Path, arguments: list[str]) -> None:
    init(tmp_path, *arguments, code=2)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_comes_with_a_hint() -> None:
    done = init(Path("/proc"), code=2)
    assert done.stderr.startswith("error: cannot write `gapless.toml`: ")
    assert "\n\nhint: run it in a folder that you may write to\n" in done.stderr


@pytest.mark.parametrize("network", [it.name for it in networks()])
def test_every_network_can_be_chosen(network: str) -> None:
    text = f"[endpoints.{network}]\nurl = 'http://x'\nnetwork = '{network}'\n"
    assert network in config.parse(text).endpoints
