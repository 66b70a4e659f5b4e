"""Verify that stored rows are complete, from the rows alone, without relying on a ledger.

`expected` computes what should be stored; `check` examines a range of a sink and returns a
`report`; `windows` compares the rows of some blocks with each other; `deep` reads and proves every
row again; `anchored` finds the blocks known to be on the right chain; `against` compares blocks
with a node's. Verification uses only the contract of a sink, and reads rows in windows, so memory
does not grow with the range.
"""

from gapless.verification.against import compare
from gapless.verification.check import Verification
from gapless.verification.deep import Progress
from gapless.verification.report import Anchored, Coverage, Finding, Report, Reproven

__all__ = [
    "Anchored",
    "Coverage",
    "Finding",
    "Progress",
    "Report",
    "Reproven",
    "Verification",
    "compare",
]
