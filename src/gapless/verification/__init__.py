"""Verifies that stored rows are complete, from the rows alone: without a ledger, without trust.

`expected` says what should be stored; `check` examines a range of a sink and makes a `report`;
`windows` compares the rows of some blocks with each other; `deep` reads every row and proves it
again; `anchored` finds the blocks known to be on the right chain; `against` compares with a node.
Only the contract of a sink is used, and rows are read in windows: memory does not grow with the
range.
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
