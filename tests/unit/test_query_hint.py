"""The query that a fetch suggests at its end fits the sink."""

from __future__ import annotations

import pytest

from gapless.cli.render_fetch import query
from gapless.core.ranges import Span
from tests.evm import table


@pytest.mark.parametrize(
    ("target", "begins"),
    [
        ("eth.db", 'sqlite3 -header -column eth.db "SELECT block_number,'),
        ("sqlite:///my eth.x?fk=off", "sqlite3 -header -column 'my eth.x' \"SELECT block_number,"),
        ("eth.duckdb", 'duckdb -readonly eth.duckdb "SELECT block_number,'),
        ("duckdb:///eth.x", 'duckdb -readonly eth.x "SELECT block_number,'),
        ("postgresql://me:secret@host/db?schema=x", "psql postgresql://me@host/db -c 'SELECT "),
        ("parquet:eth", "duckdb -c \"FROM 'eth/**/blocks/*.parquet'"),
        ("eth/", "duckdb -c \"FROM 'eth/**/blocks/*.parquet'"),
    ],
)
def test_the_query_fits_the_sink(target: str, begins: str) -> None:
    suggested = query(target, table("blocks"), Span(7, 9))
    assert suggested.startswith(begins)
    assert "secret" not in suggested
    assert ('FROM "x".blocks_hex' in suggested) == ("schema=x" in target)
