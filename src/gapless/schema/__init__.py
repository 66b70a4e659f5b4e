"""The record tables, defined once.

`tables` says what the tables are; everything else derives from it and adds nothing: `arrow` the
schemas that travel through the pipeline, `sqlite` the DDL, `reference` the documentation.
"""

from gapless.schema.tables import (
    BLOCKS,
    F64,
    LOGS,
    TABLES,
    TRANSACTIONS,
    WITHDRAWALS,
    Column,
    Index,
    Kind,
    Table,
    table,
)

__all__ = [
    "BLOCKS",
    "F64",
    "LOGS",
    "TABLES",
    "TRANSACTIONS",
    "WITHDRAWALS",
    "Column",
    "Index",
    "Kind",
    "Table",
    "table",
]
