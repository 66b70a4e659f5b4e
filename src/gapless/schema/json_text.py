"""Rows as JSON objects, a column at a time. Pure.

Bytes are hex, and a 256-bit number is its decimal digits in quotes, because most readers round JSON
numbers of that size. A column that is null is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from gapless.schema.layout import Field, Form
from gapless.schema.values import joined


def json_members(rows: pa.Table, fields: Sequence[Field]) -> pa.Array:
    """Return, for each row, the members of its object without the braces.

    The first field must not be null.
    """
    if not rows.num_rows:
        return pa.array([], pa.string())
    parts = []
    for at, field in enumerate(fields):
        values = field.values(rows, {})
        if values.null_count == len(values):
            continue
        name = f'{"," if at else ""}"{field.name}":'
        if field.form is Form.TEXT:
            texts = joined(f'{name}"', values, '"')
        else:
            texts = joined(name, values.cast(pa.string()))
        parts.append(texts.fill_null(""))
    return joined(*parts)
