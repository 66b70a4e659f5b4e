"""What the compiled core cannot read, Python reads; a failure of the core is not hidden."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from gapless.chains.decoder import PYTHON
from gapless.chains.evm import native
from gapless.chains.evm.family import EVM
from gapless.chains.evm.native import EvmCore
from gapless.chains.evm.reading import read
from gapless.devnode import Parameters
from tests.evm_answers import Answers, simulated_answers
from tests.unit.evm.mutations import compare


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder: Path = tmp_path_factory.mktemp("cache")
    return simulated_answers(Parameters(blocks=4, seed=2), range(4), folder)


@pytest.fixture
def failing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that raises what the test names."""

    def fail(*arguments: Any) -> NoReturn:
        raise request.param

    core = EvmCore(SimpleNamespace(read=fail), PYTHON)
    monkeypatch.setattr(native, "installed", lambda: core)


@pytest.mark.parametrize("failing", [OverflowError("too large")], indirect=True)
def test_python_reads_what_is_too_large(failing: None, made: Answers) -> None:
    assert not compare(read, EVM.read, *made)[0].refused


@pytest.mark.parametrize("failing", [RuntimeError("the core failed")], indirect=True)
def test_a_failure_is_not_hidden(failing: None, made: Answers) -> None:
    raws, wanted = made
    with pytest.raises(RuntimeError, match="the core failed"):
        EVM.read(raws, wanted, (), whole=False)
