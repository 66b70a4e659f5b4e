"""Named statements, read from the `.sql` files of a dialect.

A file holds statements under `-- name: …` lines, with `:name` parameters. `@now` stands for the
ledger's clock: the database's own, unless a simulation binds `:now`. A dialect that wants
numbered parameters (PostgreSQL) gets them from `numbered`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import msgspec

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")


@dataclass(frozen=True)
class Statement:
    """A statement and the names of its parameters, in the order of their first use."""

    text: str
    parameters: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Statement:
        return cls(text.strip(), tuple(dict.fromkeys(_PARAMETER.findall(text))))

    def numbered(self) -> str:
        """The text with `$1`, `$2`, … for its parameters."""
        places = {name: f"${at}" for at, name in enumerate(self.parameters, 1)}
        return _PARAMETER.sub(lambda match: places[match[1]], self.text)

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        return [bindable(given[name]) for name in self.parameters]


def bindable(value: Any) -> Any:
    """Lists and tuples travel as JSON; the statements take them apart."""
    return msgspec.json.encode(value).decode() if isinstance(value, list | tuple) else value


def load(package: str, now: str) -> dict[str, Statement]:
    """All statements of a dialect by name; `now` is its clock."""
    statements: dict[str, Statement] = {}
    for file in sorted(resources.files(package).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            _, *parts = _NAME.split(file.read_text())
            for name, text in zip(parts[::2], parts[1::2], strict=True):
                if name in statements:
                    raise ValueError(f"two statements named {name} in {package}")
                statements[name] = Statement.parse(text.replace("@now", now))
    return statements


def migrations(package: str) -> list[tuple[int, str]]:
    """The numbered migration scripts of a dialect, in order."""
    files = resources.files(package).joinpath("migrations").iterdir()
    return sorted(
        (int(file.name.split("_")[0]), file.read_text())
        for file in files
        if file.name.endswith(".sql")
    )
