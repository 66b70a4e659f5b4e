"""A TRON block as a node returned it, not parsed yet."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.providers.calls import is_null


@dataclass(frozen=True, slots=True)
class RawTronBlock:
    """The answers about one block, as JSON.

    `block` is what `/wallet/getblockbynum` returns, or one element of `getblockbylimitnext`.
    `infos` is the list that `/wallet/gettransactioninfobyblocknum` returns, or None if it was not
    requested. `other_block` and `other_infos` are the same from a second endpoint, if one was
    asked and answered.
    """

    height: int
    endpoint: str
    block: bytes
    infos: bytes | None
    other_block: bytes | None = None
    other_infos: bytes | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the node returned all that was requested."""
        return not is_null(self.block) and (self.infos is None or not is_null(self.infos))

    @property
    def size(self) -> int:
        """Bytes."""
        parts = (self.block, self.infos, self.other_block, self.other_infos)
        return sum(len(part) for part in parts if part is not None)
