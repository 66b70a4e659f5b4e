"""Is what is stored whole? Asked of the stored rows themselves, without a ledger and without trust.

`check` looks through a range of a sink and makes a `report`; `windows` holds what is found within
some blocks against each other; `against` compares with a node. Only the contract of a sink is used,
and rows pass through in windows: memory does not grow with the range.
"""

from gapless.verify.against import compare
from gapless.verify.check import missing, verify
from gapless.verify.report import Coverage, Finding, Report

__all__ = ["Coverage", "Finding", "Report", "compare", "missing", "verify"]
