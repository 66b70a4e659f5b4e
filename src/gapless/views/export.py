"""What an export has written."""

from __future__ import annotations

from msgspec import Struct

from gapless.core.ranges import Span
from gapless.export import layout_sets


class ExportView(Struct, frozen=True, kw_only=True):
    """The rows of a file, and the layout of its columns."""

    network: str
    first: int
    last: int
    rows: int
    schema: str
    schema_version: str | None
    output: str


def export_view(network: str, span: Span, rows: int, schema: str, output: str) -> ExportView:
    return ExportView(
        network=network,
        first=span.first,
        last=span.last,
        rows=rows,
        schema=schema,
        schema_version=layout_sets()[schema].version,
        output=output,
    )
