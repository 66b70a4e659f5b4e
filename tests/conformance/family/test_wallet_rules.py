"""What the wallet rules of every family must keep."""

from __future__ import annotations

import pytest

from gapless.chains import families
from gapless.chains.family import Family
from gapless.chains.movements import WalletRules
from gapless.core.errors import UsageError
from gapless.schema.arrow import arrow_schema
from tests.toychain import TOY

FAMILIES = [family for family in families() if family.wallets is not None]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def rules_of(family: Family) -> WalletRules:
    assert family.wallets is not None
    return family.wallets


def test_a_family_may_have_no_wallets() -> None:
    assert TOY.wallets is None
    assert [family.name for family in FAMILIES] == ["evm", "tron"]


@every_family
def test_tables_are_those_of_the_family(family: Family) -> None:
    rules, names = rules_of(family), [table.name for table in family.tables]
    assert rules.tables[0] == names[0]
    assert {*rules.tables} <= {*names}
    assert rules.transactions in rules.tables


@every_family
def test_addresses_fit_the_columns_where_they_are_looked_for(family: Family) -> None:
    tables = {table.name: table for table in family.tables}
    for lookup in rules_of(family).lookups:
        column = arrow_schema(tables[lookup.table]).field(lookup.column)
        assert column.type.byte_width == len(lookup.padding) + 20


@every_family
def test_an_address_is_read_as_it_is_written(family: Family) -> None:
    rules = rules_of(family)
    for address in (bytes(20), b"\xff" * 20, bytes(range(20))):
        assert rules.parse_address(rules.format_address(address)) == address
    with pytest.raises(UsageError) as refused:
        rules.parse_address("nonsense")
    assert refused.value.hint


@every_family
def test_every_network_has_a_coin(family: Family) -> None:
    for network in family.networks:
        coin = rules_of(family).coin(network)
        assert coin.symbol
        assert coin.decimals > 0


@every_family
def test_no_rows_have_no_movements(family: Family) -> None:
    rules = rules_of(family)
    empty = {table.name: arrow_schema(table).empty_table() for table in family.tables}
    for network in family.networks:
        assert rules.movements(empty, network, [b"\x01" * 20]) == []
