"""Is what is stored whole? Asked of the stored rows themselves, without a ledger and without trust.

`expected` says what should be there; `check` looks through a range of a sink and makes a `report`;
`windows` holds what is found within some blocks against each other; `deep` reads and proves every
row again; `anchored` tells of which chain they are; `against` compares with a node. Only the
contract of a sink is used, and rows pass through in windows: memory does not grow with the range.
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
