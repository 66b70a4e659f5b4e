"""Named statements: read from files, with shared parts and parameters for each dialect."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gapless.ledger import sql
from gapless.ledger.fragments import Dialect
from gapless.ledger.postgres.statements import STATEMENTS
from gapless.ledger.sql import Statement
from gapless.ledger.sqlite.database import STEPS


def dialect(now: str = "") -> Dialect:
    return Dialect(
        now,
        "least",
        lambda parameter, types: f"<{parameter}: {', '.join(types)}>",
        lambda column, name: f"{column}.{name}",
    )


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"dialect_{tmp_path.name}".replace("-", "_")
    (tmp_path / name / "migrations").mkdir(parents=True)
    (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def write(package: str, file: str, text: str) -> None:
    (Path(sys.path[0]) / package / file).write_text(text)


def test_parameters_are_numbered_by_first_use() -> None:
    statement = Statement.parse("SELECT :b, :a, :b::text, 'x:y', '12:30' WHERE c = :a")
    assert statement.parameters == ("b", "a")
    assert statement.numbered() == "SELECT $1, $2, $1::text, 'x:y', '12:30' WHERE c = $2"
    assert statement.values({"a": 1, "b": [2, "x"], "c": 3}) == ['[2,"x"]', 1]
    assert statement.values({"a": None, "b": {7: 2}}) == ['{"7":2}', None]
    with pytest.raises(KeyError, match="b"):
        statement.values({"a": 1})


def test_statements_are_found_by_name_and_contain_the_clock(package: str) -> None:
    write(package, "one.sql", "-- about\n\n-- name: first\nSELECT @now, :x\n")
    write(package, "two.sql", "-- name: second\nSELECT 2\n\n-- name: third\nSELECT 3\n")
    statements = sql.load(package, dialect("now()"))
    assert {name: each.text for name, each in statements.items()} == {
        "first": "SELECT now(), :x",
        "second": "SELECT 2",
        "third": "SELECT 3",
    }


def test_a_part_is_inserted_wherever_it_is_named(package: str) -> None:
    write(package, "one.sql", "-- part: late\ndue < @now\n\n-- name: it\nSELECT 1 WHERE @late\n")
    assert sql.load(package, dialect(":t"))["it"].text == "SELECT 1 WHERE due < :t"


def test_the_columns_of_a_row_are_inserted_wherever_it_is_named(package: str) -> None:
    write(
        package,
        "one.sql",
        "-- name: it\nSELECT @e.StoredProfile, @:StoredProfile FROM (@StoredProfile(items)) AS e\n",
    )
    statement = sql.load(package, dialect())["it"]
    assert statement.text == (
        "SELECT e.name, e.profile, :name, :profile FROM (<items: name, profile>) AS e"
    )


@pytest.mark.parametrize("reference", ["nothing", "Nothing", "b.Nothing", "Nothing(items)"])
def test_an_undefined_name_is_an_error(package: str, reference: str) -> None:
    write(package, "one.sql", f"-- name: it\nSELECT @{reference}\n")
    with pytest.raises(KeyError, match="othing"):
        sql.load(package, dialect())


def test_two_statements_with_one_name_are_an_error(package: str) -> None:
    write(package, "one.sql", "-- name: it\nSELECT 1\n")
    write(package, "two.sql", "-- name: it\nSELECT 2\n")
    with pytest.raises(ValueError, match="two statements are named it"):
        sql.load(package, dialect())


def test_migrations_are_in_numerical_order(package: str) -> None:
    for number in (10, 2, 1):
        write(package, f"migrations/{number:04d}_x.sql", f"SELECT {number}")
    write(package, "migrations/README", "not a migration")
    assert [number for number, _ in sql.migrations(package)] == [1, 2, 10]


def test_both_dialects_have_the_same_statements() -> None:
    assert STEPS.keys() == STATEMENTS.keys()
