"""Exports in addition to the stored tables: token transfers, and the files of ethereum-etl."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.chains.evm.etl import ETL, VERSION
from gapless.chains.evm.tables import LOGS
from gapless.chains.evm.transfers import COLUMNS, MADE_OF, transfers
from gapless.schema.layout import Layout, LayoutSet, native_fields

LAYOUTS: Mapping[str, LayoutSet] = {
    "native": LayoutSet(
        {"token_transfers": Layout(LOGS, native_fields(COLUMNS), {}, MADE_OF, transfers)},
        elsewhere={"receipts": "in `native` they are columns of `transactions`"},
    ),
    "ethereum-etl": LayoutSet(
        ETL,
        version=VERSION,
        elsewhere={"withdrawals": "in `ethereum-etl` they are a column of `blocks`"},
    ),
}
