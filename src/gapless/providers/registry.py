"""The providers that a process uses, one endpoint per URL.

A provider counts the requests of a customer, not those of a backfill. So a process opens one
registry, and each pool is a view on it: pools that use the same URL share its rate, its slots for
requests in flight, its rests and everything that was learned about it. Two API keys at one URL,
sent as headers, are two customers.

    async with Providers(workers=8) as providers:
        async with Pool(specs, providers=providers) as pool: ...

When several processes work together, each gets its share of the rate and of the slots. If a
provider makes one process wait, the others wait as well: `rests` returns the rests to share, and
`rest` applies those of other processes. Times are of the monotonic clock, which all processes of a
host share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

import msgspec

from gapless.providers.endpoint import Endpoint, EndpointSpec
from gapless.providers.http import Http
from gapless.providers.pace import Pacer
from gapless.providers.profile import Profile
from gapless.providers.standing import Standing
from gapless.providers.transport import Timeouts
from gapless.system import SYSTEM, System
from gapless.telemetry import metrics

_THREADS = 2
_SHARED_REST = 1.0  # seconds that a rest must still last to be shared


class Share(msgspec.Struct, frozen=True):
    """The share of one of several processes in a common budget."""

    part: int = 0
    parts: int = 1

    def of_slots(self, slots: int) -> int:
        """Return its share of the slots; at least one, or the process could not work."""
        whole, rest = divmod(slots, self.parts)
        return max(1, whole + (self.part < rest))

    def of_rate(self, rate: float | None) -> float | None:
        return None if rate is None else rate / self.parts

    def others(self) -> list[Share]:
        """Return the shares of all other processes, given that this one is the first."""
        return [Share(part, self.parts) for part in range(1, self.parts)]


class Rested(msgspec.Struct, frozen=True):
    """A provider that must not be asked for a while, and why."""

    until: float
    trouble: str


Rests = dict[str, Rested]
"""Rests by the endpoint's fingerprint, which is the same in all processes and not secret."""


class Providers:
    """The endpoints of a process by URL, open while inside its `async with`."""

    def __init__(
        self,
        workers: int = 8,
        *,
        share: Share = Share(),  # noqa: B008 - frozen
        timeouts: Timeouts | None = None,
        system: System = SYSTEM,
        connect: Callable[[Timeouts], Http] = Http,
    ) -> None:
        """`connect` creates the HTTP client; a simulation replaces the network with it."""
        self.workers = share.of_slots(workers)
        self._share = share
        self._timeouts = timeouts or Timeouts()
        # So that all processes together start one reading thread for each core.
        self.system = replace(system, cores=lambda: share.of_slots(system.cores()))
        self._connect = connect
        self._endpoints: dict[str, Endpoint] = {}
        self._standings: dict[Endpoint, Standing] = {}
        self._known_rests: Rests = {}  # also of endpoints that this process has not used yet
        self._stack = AsyncExitStack()
        self._is_open = False
        self.http: Http
        self.threads: Executor

    async def __aenter__(self) -> Self:
        self.http = await self._stack.enter_async_context(self._connect(self._timeouts))
        self.threads = self.system.executor(_THREADS, "gapless-rpc")
        self._stack.callback(self.threads.shutdown)
        self._is_open = True
        for endpoint in self._endpoints.values():
            self._announce(endpoint)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        for endpoint in self._endpoints.values():
            metrics.WORKERS.add(-self.workers)
            metrics.ENDPOINT_UP.forget(endpoint.name)
        await self._stack.aclose()

    def endpoint(self, spec: EndpointSpec, known: Profile) -> Endpoint:
        """Return the endpoint of a URL; the profile is used if the endpoint is new here.

        If a URL is given several names, the first one is kept. If it is given several rates, the
        lowest applies.
        """
        mine = replace(spec, rps=self._share.of_rate(spec.rps))
        key = fingerprint(spec.url, spec.headers)
        found = self._endpoints.get(key)
        if found is None:
            found = Endpoint(mine, self.workers, known, self.system)
            self._endpoints[key] = found
            self._standings[found] = Standing(found)
            if self._is_open:
                self._announce(found)
            self.rest(self._known_rests)
        elif mine.rps is not None and (found.spec.rps is None or mine.rps < found.spec.rps):
            found.spec = replace(found.spec, rps=mine.rps)
            found.pacer = Pacer(mine.rps)
        return found

    def standing(self, endpoint: Endpoint) -> Standing:
        return self._standings[endpoint]

    def rests(self) -> Rests:
        """Return the rests to share with other processes, including those they reported."""
        now = self.system.clock()
        active = {key: each for key, each in self._known_rests.items() if each.until > now}
        self._known_rests = active
        for key, endpoint in self._endpoints.items():
            until = endpoint.ready_at()
            known = active.get(key)
            if until - now >= _SHARED_REST and (known is None or until > known.until):
                active[key] = Rested(until, endpoint.trouble)
        return dict(active)

    def rest(self, rests: Mapping[str, Rested]) -> None:
        """Apply the rests that other processes reported."""
        for key, reported in rests.items():
            known = self._known_rests.get(key)
            if known is None or reported.until > known.until:
                self._known_rests[key] = reported
            endpoint = self._endpoints.get(key)
            if endpoint is not None and endpoint.ready_at() < reported.until:
                endpoint.trouble = reported.trouble
                endpoint.rest(reported.until, 0.0)

    def _announce(self, endpoint: Endpoint) -> None:
        metrics.WORKERS.add(self.workers)
        metrics.ENDPOINT_UP.set(1, endpoint.name)


def fingerprint(url: str, headers: Mapping[str, str]) -> str:
    """Identify an endpoint without revealing it, as long as its API key cannot be guessed."""
    lines = [url, *(f"{name.lower()}: {value}" for name, value in sorted(headers.items()))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
