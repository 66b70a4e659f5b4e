"""What one node sees of a chain that several nodes share.

chain      0 ─ … ─ 97 ─ 98 ─ 99 ─ 100
lag=2      0 ─ … ─ 97 ─ 98
null=5s    0 ─ … ─ 97 ─ 98 ─ 99            100 is announced, but not served yet
flap=30s   0 ─ … ─ 97 ─ 98 ─ 99'           every other request, after a reorganisation
cache=10s  the answer about the latest block is up to ten seconds old
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from gapless.core.durations import parse_duration
from gapless.core.errors import UsageError
from gapless.core.similar import known_names
from gapless.devnode.chain import Chain, Move
from gapless.devnode.limits import Limits
from gapless.devnode.view import MethodCall, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """How a node's view differs from the chain; by default, it does not."""

    lag: int = 0  # blocks that it is behind the head
    cache: float = 0.0  # seconds for which it repeats an answer about the latest block
    flap: float = 0.0  # seconds after a reorganisation in which it alternates between the branches
    null: float = 0.0  # seconds for which it answers null for a block that it has announced


_KEYS = ("lag", "cache", "flap", "null")


def parse_visibility(text: str) -> Visibility:
    """Parses a visibility such as `lag=3,null=2s`."""
    lag, seconds = 0, dict[str, float]()
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = item.partition("=")
        if key not in _KEYS:
            raise UsageError(f"a view has no `{key}`", hint=known_names(key, _KEYS))
        if key != "lag":
            seconds[key] = parse_duration(value)
        elif value.isdecimal():
            lag = int(value)
        else:
            raise UsageError(f"`{item}` is not a number of blocks", hint="write `lag=3`")
    return Visibility(
        lag=lag,
        cache=seconds.get("cache", 0.0),
        flap=seconds.get("flap", 0.0),
        null=seconds.get("null", 0.0),
    )


class Observer:
    """The view of one node, which depends on when the chain has moved."""

    def __init__(
        self, chain: Chain, limits: Limits, visibility: Visibility, clock: Callable[[], float]
    ) -> None:
        self._chain, self._limits = chain, limits
        self._visibility, self._clock = visibility, clock
        self._announced = self._lagging(chain.head)
        self._recent: deque[tuple[float, int]] = deque()  # announcements: when, and which height
        self._reorganised_at = -inf
        self._tips: dict[bytes, tuple[float, bytes]] = {}  # answers, by call

    def moved(self, move: Move) -> range:
        """Takes note of new blocks, and returns the heights that this node now announces."""
        now, last = self._clock(), self._lagging(move.last)
        if move.reorg:
            self._reorganised_at = now
        heights = range(min(move.first, self._announced + 1), last + 1)
        self._announced = last
        if self._visibility.null:
            self._recent.extend((now, height) for height in heights)
        return heights

    def view(self, request: int) -> View:
        """What it sees now; `request` is the number of the request."""
        chain = self._chain
        replaced = chain.replaced if self._flaps() and request % 2 else {}
        head = max(replaced) if replaced else chain.head
        return View(
            chain,
            self._lagging(head),
            self._limits,
            highest=self._lagging(chain.highest),
            unready_from=self._unready_from(),
            replaced=replaced,
        )

    def repeated(self, call: MethodCall) -> bytes | None:
        """The earlier answer to this call, if it is about the latest block and recent enough."""
        if not self._visibility.cache:
            return None
        answered_at, answer = self._tips.get(call.key, (-inf, None))
        return answer if self._clock() - answered_at < self._visibility.cache else None

    def remember(self, call: MethodCall, answer: bytes) -> None:
        """Keeps an answer about the latest block."""
        if self._visibility.cache and self._chain.dialect.is_about_tip(call):
            self._tips[call.key] = (self._clock(), answer)

    def _lagging(self, height: int) -> int:
        return max(0, height - self._visibility.lag)

    def _flaps(self) -> bool:
        return self._clock() - self._reorganised_at < self._visibility.flap

    def _unready_from(self) -> int | None:
        since = self._clock() - self._visibility.null
        while self._recent and self._recent[0][0] <= since:
            self._recent.popleft()
        return min((height for _, height in self._recent), default=None)
