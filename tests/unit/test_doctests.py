"""The examples in the docstrings of the core are right."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from gapless import core

MODULES = [module.name for module in pkgutil.iter_modules(core.__path__, "gapless.core.")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_are_right(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    modules = [importlib.import_module(name) for name in MODULES]
    assert sum(doctest.testmod(module).attempted for module in modules) > 3
