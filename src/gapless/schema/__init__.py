"""How tables are described, and everything that follows from a description.

`table` says what a table is made of; the rest derives from that and adds nothing: `arrow` the
schemas that travel through the pipeline, `sqlite`, `postgres` and `duckdb` the DDL, `digest` one
number for a range of rows, `layout` the columns of exported files, `reference` the documentation.
The tables themselves belong to the chain families.
"""

from gapless.schema.table import F64, Column, Index, Kind, Links, Schema, Table, may, must

__all__ = ["F64", "Column", "Index", "Kind", "Links", "Schema", "Table", "may", "must"]
