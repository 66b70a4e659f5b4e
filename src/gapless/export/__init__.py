"""Export stored rows to files that other tools can read.

A layout (see `schema.layout`) defines the columns of a file and how they are derived from the
stored tables; `catalog` collects the layouts of all chain families. `writers` write these columns
in a file format, and `stream` copies the rows of a range from a sink to a writer, window by window.
"""

from gapless.export.catalog import NATIVE, find_layout, layout_sets
from gapless.export.stream import Export, expired, lacking, range_of
from gapless.export.writers import FORMATS

__all__ = [
    "FORMATS",
    "NATIVE",
    "Export",
    "expired",
    "find_layout",
    "lacking",
    "layout_sets",
    "range_of",
]
