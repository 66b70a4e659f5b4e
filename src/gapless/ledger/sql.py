"""Named statements, read from the `.sql` files of a dialect.

A file holds statements under `-- name: …` lines, with `:name` parameters, and under `-- part: …`
lines the text that several of them share: `@part` in a statement stands for it. `@now` is the
ledger's clock: the database's own, unless a simulation binds `:now`. What is defined in Python,
such as the columns of a row, is referred to in the same way (`gapless.ledger.fragments`). A dialect
with numbered parameters (PostgreSQL) gets them from `numbered`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import msgspec

from gapless.core.errors import BadJob
from gapless.ledger.fragments import Dialect

_HEAD = re.compile(r"^-- (name|part): (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_PART = re.compile(r"@((?::|\w+\.)?\w+(?:\(\w+\))?)")
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")
_ENDING = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|;)*"
    r"(?:BEGIN|START|COMMIT|END|ABORT|PREPARE\s+TRANSACTION|ROLLBACK(?!\b[^;]*\bTO\b))\b",
    re.IGNORECASE | re.DOTALL,
)


ENCODED = frozenset({list, tuple, dict})


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
        return [
            bindable(each) if type(each) in ENCODED else each
            for each in map(given.__getitem__, self.parameters)
        ]


def refuse_ending(text: str) -> None:
    """Refuses statements that begin or end a transaction: the progress would be outside of it."""
    if _ENDING.match(text):
        raise BadJob(
            "a job's SQL may not begin or end a transaction",
            hint="leave the `with` to commit, or raise to roll back; savepoints are fine",
        )


def bindable(value: Any) -> Any:
    """Encodes lists, tuples and mappings as JSON, which the statements decode."""
    return msgspec.json.encode(value).decode() if type(value) in ENCODED else value


def load(package: str, dialect: Dialect) -> dict[str, Statement]:
    """All statements of a dialect by name."""
    texts: dict[str, dict[str, str]] = {"name": {}, "part": dialect.parts()}
    for file in sorted(resources.files(package).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            _, *found = _HEAD.split(file.read_text())
            for kind, name, text in zip(found[::3], found[1::3], found[2::3], strict=True):
                if name in texts[kind]:
                    raise ValueError(f"two statements are named {name} in {package}")
                texts[kind][name] = _COMMENT.sub("", text).strip()

    def expanded(text: str) -> str:
        return _PART.sub(lambda match: found_part(match[1]), text)

    def found_part(name: str) -> str:
        part = texts["part"].get(name)
        return dialect.columns(name) if part is None else expanded(part)

    return {name: Statement.parse(expanded(text)) for name, text in texts["name"].items()}


def migrations(package: str) -> list[tuple[int, str]]:
    """The numbered migration scripts of a dialect, in order."""
    files = resources.files(package).joinpath("migrations").iterdir()
    return sorted(
        (int(file.name.split("_")[0]), file.read_text())
        for file in files
        if file.name.endswith(".sql")
    )
