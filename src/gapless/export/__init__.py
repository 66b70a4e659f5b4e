"""Stored rows as files that other tools read.

A `layout` says what a file's columns are and how they come from the stored tables: `etl` has those
of ethereum-etl, `native` our own. `writers` put such columns into a file of some format, and
`stream` lets the rows of a range pass from a sink to a writer, window by window.
"""

from gapless.export.catalog import LAYOUTS, VERSIONS, find_layout
from gapless.export.stream import Export, lacking, range_of
from gapless.export.writers import FORMATS

__all__ = ["FORMATS", "LAYOUTS", "VERSIONS", "Export", "find_layout", "lacking", "range_of"]
