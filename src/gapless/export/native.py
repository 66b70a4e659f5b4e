"""Our own columns, in files: bytes as hex, 256-bit numbers by all their digits.

The digits are text in every format: a JSON number of that size is rounded by most that read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gapless.export.layout import Field, Form, Layout, plain
from gapless.export.transfers import COLUMNS, MADE_OF, transfers
from gapless.schema import LOGS, TABLES, Column


def _fields(columns: Iterable[Column]) -> tuple[Field, ...]:
    return tuple(plain(column, wide=Form.TEXT) for column in columns)


NATIVE: Mapping[str, Layout] = {
    **{each.name: Layout(each, _fields(each.columns), {}) for each in TABLES},
    "token_transfers": Layout(LOGS, _fields(COLUMNS), {}, MADE_OF, transfers),
}
