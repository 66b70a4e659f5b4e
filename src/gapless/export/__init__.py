"""Stored rows as files that other tools read.

A layout (see `schema.layout`) says what a file's columns are and how they come from the stored
tables; `catalog` collects those of all chain families. `writers` put such columns into a file of
some format, and `stream` passes the rows of a range from a sink to a writer, window by window.
"""

from gapless.export.catalog import NATIVE, find_layout, layout_sets
from gapless.export.stream import Export, lacking, range_of
from gapless.export.writers import FORMATS

__all__ = ["FORMATS", "NATIVE", "Export", "find_layout", "lacking", "layout_sets", "range_of"]
