"""What was proven of blocks: the checks that held, and those that could not be made.

A check goes by its name, a single word. Chain families have checks of their own; the ones named
here mean the same for every family.
"""

from __future__ import annotations

from dataclasses import dataclass

HEIGHT = "height"  # it is the block that was asked for
LINK = "link"  # its parent is the block before it
ANCHOR = "anchor"  # at a height whose hash is known, it is that block
AGREED = "agreed"  # what nothing proves: two endpoints give the same


@dataclass(frozen=True, slots=True)
class Proof:
    """Which checks held, and which of those asked for could not be made."""

    proven: frozenset[str] = frozenset()
    unproven: frozenset[str] = frozenset()

    def __or__(self, other: Proof) -> Proof:
        """What two examinations of one block found."""
        proven = self.proven | other.proven
        return Proof(proven, (self.unproven | other.unproven) - proven)

    def __and__(self, other: Proof) -> Proof:
        """What can be said of two blocks together."""
        return Proof(self.proven & other.proven, self.unproven | other.unproven)


def lacking_proofs(
    proven: frozenset[str], unproven: frozenset[str], expected: frozenset[str]
) -> frozenset[str]:
    """What a person should know is not proven: of what is expected, or was asked for in vain."""
    return (expected | unproven) - proven
