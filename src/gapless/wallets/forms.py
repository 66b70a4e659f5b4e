"""Histories as files of comma-separated values, in columns that other tools read.

A form is a function of the entries of one wallet, in the order of the chain, and of the names in
them. Columns of prices are present and empty: Gapless knows no prices.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TextIO

from gapless.chains.movements import Movement
from gapless.wallets import etherscan, koinly
from gapless.wallets.categories import WalletEntry
from gapless.wallets.history import DisplayNames

_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20\t\r\n")
"""What a spreadsheet may take for the beginning of a formula; four of them are full-width."""


class CsvForm(NamedTuple):
    """The columns of a file, with places for the coin, and its rows for the entries of a wallet."""

    columns: tuple[str, ...]
    rows: Callable[
        [Iterable[tuple[Movement, WalletEntry]], DisplayNames], Iterator[tuple[str, ...]]
    ]


FORMS: Mapping[str, CsvForm] = {
    "etherscan-transactions": CsvForm(etherscan.TRANSACTIONS, etherscan.transactions),
    "etherscan-internal": CsvForm(etherscan.INTERNAL, etherscan.internal),
    "etherscan-tokens": CsvForm(etherscan.TOKENS, etherscan.tokens),
    "etherscan-nfts": CsvForm(etherscan.NFTS, etherscan.nfts),
    "koinly": CsvForm(koinly.COLUMNS, koinly.rows),
}


def write_csv(
    form: CsvForm,
    entries: Iterable[tuple[Movement, WalletEntry]],
    names: DisplayNames,
    file: TextIO,
) -> None:
    """Write a file with every value quoted, and nothing that a spreadsheet would execute."""
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerow(header(form, names))
    for row in form.rows(entries, names):
        writer.writerow([inert(value) for value in row])


def header(form: CsvForm, names: DisplayNames) -> list[str]:
    """The names of the columns."""
    coin = names.coin.symbol
    price_coin = "Eth" if coin == "ETH" else coin  # as Etherscan writes it
    return [column.format(coin=coin, price_coin=price_coin) for column in form.columns]


def inert(value: str) -> str:
    """A value that no spreadsheet takes for a formula.

    >>> inert("=HYPERLINK(1)"), inert("USDT")
    ("'=HYPERLINK(1)", 'USDT')
    """
    return f"'{value}" if value.startswith(_FORMULA) else value
