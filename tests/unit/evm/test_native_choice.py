"""Which decoder a process uses: the compiled core only if it fits, and never if it is ruled out."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.chains.evm.check_names import Check
from gapless.chains.evm.native import find, schema
from gapless.core.errors import UsageError
from gapless.schema import native
from gapless.schema.native import MODULE, RULES, VARIABLE

KNOWN: dict[str, Any] = {
    "RULES": RULES,
    "SCHEMA": schema(),
    "CHECKS": tuple(map(str, Check)),
    "__version__": "1.2",
}
FIT = SimpleNamespace(**KNOWN)
OF_OTHER_RULES = SimpleNamespace(**KNOWN | {"RULES": f"{RULES}1"})
OF_NO_RULES = SimpleNamespace(SCHEMA=FIT.SCHEMA, CHECKS=FIT.CHECKS)
OF_ANOTHER_SCHEMA = SimpleNamespace(**KNOWN | {"SCHEMA": schema()[1:]})
OF_OTHER_CHECKS = SimpleNamespace(**KNOWN | {"CHECKS": FIT.CHECKS[::-1]})

Load = Callable[[str], Any]


def has(core: object) -> Load:
    def load(name: str) -> object:
        assert name == MODULE
        return core

    return load


def fails(error: ImportError) -> Load:
    def load(name: str) -> object:
        raise error

    return load


ABSENT = fails(ModuleNotFoundError("No module", name=MODULE))
UNUSABLE_FOR_ROWS = {
    "the compiled core is not installed": ABSENT,
    "the compiled core cannot be loaded: no such symbol": fails(ImportError("no such symbol")),
    "the compiled core was built for another version": has(OF_OTHER_RULES),
}
UNUSABLE = UNUSABLE_FOR_ROWS | {
    "the compiled core was built for another schema": has(OF_ANOTHER_SCHEMA),
    "the compiled core was built for other checks": has(OF_OTHER_CHECKS),
}


@pytest.mark.parametrize("wish", ["", " ", "require", "REQUIRE"])
def test_a_core_that_fits_is_used(wish: str) -> None:
    found = find({VARIABLE: wish}, has(FIT))
    assert found.module is FIT
    assert found.decoder.is_parallel
    assert str(found.decoder) == "compiled core 1.2"


def test_it_is_used_without_a_wish() -> None:
    assert find({}, has(FIT)).module is FIT


def test_off_does_not_even_load_it() -> None:
    found = find({VARIABLE: "off"}, fails(ImportError("it was loaded")))
    assert found.module is None
    assert not found.decoder.is_parallel
    assert str(found.decoder) == "Python (`GAPLESS_NATIVE` is `off`)"


@pytest.mark.parametrize("reason", UNUSABLE)
def test_python_replaces_a_core_that_cannot_be_used(reason: str) -> None:
    found = find({}, UNUSABLE[reason])
    assert found.module is None
    assert not found.decoder.is_parallel
    assert str(found.decoder) == f"Python ({reason})"


@pytest.mark.parametrize("reason", UNUSABLE)
def test_a_required_core_that_cannot_be_used_is_an_error(reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        find({VARIABLE: "require"}, UNUSABLE[reason])
    assert str(caught.value) == f"`GAPLESS_NATIVE` is `require`, but {reason}"
    assert caught.value.hint is not None
    assert "gapless-native" in caught.value.hint


def test_an_unknown_wish_is_an_error() -> None:
    with pytest.raises(UsageError, match="is `maybe`"):
        find({VARIABLE: "maybe"}, has(FIT))


def test_a_core_without_rules_is_older_than_them() -> None:
    reason = "the compiled core was built for another version"
    assert find({}, has(OF_NO_RULES)).decoder.unused_core == reason


@pytest.mark.parametrize("reason", UNUSABLE_FOR_ROWS)
def test_the_same_is_true_for_rows_of_any_table(reason: str) -> None:
    load = UNUSABLE_FOR_ROWS[reason]
    assert native.find({}, load) == native.Core(None, reason)
    with pytest.raises(UsageError, match="is `require`, but the compiled core"):
        native.find({VARIABLE: "require"}, load)


def test_rows_of_any_table_need_no_known_columns() -> None:
    for core in (FIT, OF_ANOTHER_SCHEMA, OF_OTHER_CHECKS):
        assert native.find({VARIABLE: "require"}, has(core)).module is core
    assert native.find({VARIABLE: " Off"}, has(FIT)).module is None


def test_released_versions_are_equal() -> None:
    """The rules name the release, so that no core of another release is used."""
    root = Path(__file__).parents[3]
    project = _toml(root / "pyproject.toml")["project"]
    version = project["version"]
    assert project["optional-dependencies"]["native"] == [f"gapless-native=={version}"]
    assert _toml(root / "native/Cargo.toml")["package"]["version"] == version
    assert RULES.partition("+")[0] == version


def test_the_lock_needs_no_core_that_was_released() -> None:
    lock = Path(__file__).parents[3] / "requirements.lock"
    assert "gapless-native" not in lock.read_text()


def test_the_wheel_of_the_core_has_the_license_of_gapless() -> None:
    root = Path(__file__).parents[3]
    assert (root / "native/LICENSE").read_bytes() == (root / "LICENSE").read_bytes()


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())
