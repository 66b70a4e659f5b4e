"""Whether an endpoint is up or down, as seen by this process.

An endpoint is down when it denies access, cannot be reached, or has failed for so long that it is
paused. It is up again after its first result. Each change is logged once, and a gauge has the
current state. A rate limit is not a failure, unless it requires a long rest.
"""

from __future__ import annotations

import logging

import msgspec

from gapless.providers.calls import BatchReply
from gapless.providers.endpoint import Endpoint
from gapless.providers.provider_errors import Reaction
from gapless.telemetry import log, metrics

_LONG_REST = 1.0  # seconds
_LONG_REST_WHEN_LIMITED = 10.0


class Served(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an endpoint has done for a fetch, and its current state."""

    calls: int = 0  # sent to it
    refused: int = 0  # answers that did not pass the checks
    trouble: str = ""  # the last failure
    rest: float = 0.0  # seconds for which it must not be asked
    down: bool = False

    @property
    def resting(self) -> bool:
        return self.rest > 0

    def __add__(self, other: Served) -> Served:
        """Combine what it has done for two processes."""
        worse = max((self, other), key=lambda each: (each.down, each.resting, bool(each.trouble)))
        return Served(
            calls=self.calls + other.calls,
            refused=self.refused + other.refused,
            trouble=worse.trouble,
            rest=max(self.rest, other.rest),
            down=self.down or other.down,
        )


class Standing:
    """Detects when an endpoint goes down, and when it is up again."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.down = False

    def notice(self, reply: BatchReply, now: float) -> None:
        """Update the state from the reply to a request."""
        name = self._endpoint.name
        if reply.results and self.down:
            self.down = False
            metrics.ENDPOINT_UP.set(1, name)
            log(logging.INFO, "endpoint_recovered", endpoint=name)
        elif not reply.results and not self.down and self._fails(reply, now):
            self.down = True
            metrics.ENDPOINT_UP.set(0, name)
            log(logging.WARNING, "endpoint_failed", endpoint=name, error=self._endpoint.trouble)

    def served(self, calls: int, now: float) -> Served:
        endpoint = self._endpoint
        rest = max(0.0, endpoint.ready_at() - now)
        return Served(calls, trouble=endpoint.trouble, rest=rest, down=self.down)

    def _fails(self, reply: BatchReply, now: float) -> bool:
        if not reply.errors:  # it was not asked at all
            return False
        if any(each.lasting for each in reply.errors):
            return True
        reactions = {each.refusal.reaction for each in reply.errors}
        long = _LONG_REST_WHEN_LIMITED if reactions <= {Reaction.SLOW_DOWN} else _LONG_REST
        return self._endpoint.ready_at() - now >= long
