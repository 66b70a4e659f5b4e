"""Which calls have a rendered answer, and where it is.

Every method that is used to fetch a chain has one: blocks with and without transactions, receipts
by block and by transaction, logs of whole blocks. Other calls, or calls with other parameters, have
none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from bench.rendered import Rendered
from gapless.devnode.view import NULL

_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,16}").fullmatch

Answer = bytes | memoryview


class Answers:
    """The rendered results, by call."""

    def __init__(self, rendered: Rendered) -> None:
        self._rendered, self._tags = rendered, rendered.tags
        self._find: dict[str, Callable[[Any], Answer | None]] = {
            "eth_getBlockByNumber": self._block,
            "eth_getBlockReceipts": self._receipts,
            "eth_getTransactionReceipt": self._receipt,
            "eth_getLogs": self._logs,
        }

    def prepare(self) -> None:
        """Computes lazily derived values before the measurement."""
        _ = self._rendered.bare_blocks, self._rendered.logs, self._rendered.receipt_by_hash

    def ready(self, method: str, params: Any) -> Answer | None:
        find = self._find.get(method)
        return None if find is None else find(params)

    def _block(self, params: Any) -> Answer | None:
        match params:
            case [which, True]:
                return self._at(self._rendered.blocks, which)
            case [which, False]:
                return self._at(self._rendered.bare_blocks, which)
        return None

    def _receipts(self, params: Any) -> Answer | None:
        match params:
            case [which]:
                return self._at(self._rendered.receipts, which)
        return None

    def _receipt(self, params: Any) -> Answer | None:
        match params:
            case [str(name)] if (found := self._rendered.receipt_by_hash.get(name)) is not None:
                return bytes(found)
        return None

    def _logs(self, params: Any) -> Answer | None:
        match params:
            case [{"fromBlock": low, "toBlock": high, **others}] if not any(others.values()):
                first, last = self._height(low), self._height(high)
                if first is not None and last is not None and first <= last:
                    some = self._rendered.logs[first : last + 1]
                    return b"[%b]" % b",".join(filter(None, some))
        return None

    def _at(self, answers: Sequence[Answer], which: Any) -> Answer | None:
        height = self._height(which)
        if height is None:
            return None
        return answers[height] if height < len(answers) else NULL

    def _height(self, which: Any) -> int | None:
        if not isinstance(which, str):
            return None
        return int(which, 16) if _QUANTITY(which) else self._tags.get(which)
