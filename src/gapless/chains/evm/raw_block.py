"""A block as a node returned it, not parsed yet."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Raw

from gapless.providers.calls import is_null


@dataclass(frozen=True, slots=True)
class EvmRawBlock:
    """A block as JSON, with its receipts as a list, or only its logs if there are no receipts.

    `other_logs` are the same logs from a second endpoint, if one was asked and answered.
    """

    height: int
    block: Raw
    receipts: Raw | None
    logs: Raw | None
    endpoint: str
    other_logs: Raw | None = None

    @property
    def is_whole(self) -> bool:
        return not is_null(self.block) and (self.receipts is None or not is_null(self.receipts))

    @property
    def size(self) -> int:
        """Bytes."""
        parts = (self.block, self.receipts, self.logs, self.other_logs)
        return sum(memoryview(part).nbytes for part in parts if part is not None)
