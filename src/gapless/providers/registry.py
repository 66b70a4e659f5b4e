"""The providers that a process uses, each of them once.

A provider counts the requests of a customer, not those of a backfill. So a process opens one
registry, and every pool in it is a view on that: whoever asks the same URL shares its rate, its
places for requests in flight, its rests and everything that was learned about it.

    async with Providers(workers=8) as providers:
        async with Pool(specs, providers=providers) as pool: ...

Of several processes that work together, each gets its share of the rate and of the places. What
the provider told one of them to wait for, the others wait for too: `rests` says it, `rest` hears
it. Times are those of the monotonic clock, which all processes of a host have in common.
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
from gapless.providers.http import Http, Timeouts
from gapless.providers.pace import Pacer
from gapless.providers.profile import Profile
from gapless.providers.standing import Standing
from gapless.system import SYSTEM, System
from gapless.telemetry import metrics

_THREADS = 2
_WORTH_TELLING = 1.0  # seconds that a rest must still last


class Share(msgspec.Struct, frozen=True):
    """The part that one of several processes has in a common budget."""

    part: int = 0
    parts: int = 1

    def of_places(self, places: int) -> int:
        """A part of some places; at least one, or the process could not work."""
        whole, rest = divmod(places, self.parts)
        return max(1, whole + (self.part < rest))

    def of_rate(self, rate: float | None) -> float | None:
        return None if rate is None else rate / self.parts

    def others(self) -> list[Share]:
        """The shares of all other processes, given that this one is the first."""
        return [Share(part, self.parts) for part in range(1, self.parts)]


class Rested(msgspec.Struct, frozen=True):
    """A provider that must not be asked for a while, and why."""

    until: float
    trouble: str


Rests = dict[str, Rested]
"""By the fingerprint of the URL: it is the same in all processes, and not a secret."""


class Providers:
    """The endpoints of a process by URL, from entering to leaving."""

    def __init__(
        self,
        workers: int = 8,
        *,
        share: Share = Share(),  # noqa: B008 - frozen
        timeouts: Timeouts | None = None,
        system: System = SYSTEM,
        connect: Callable[[Timeouts], Http] = Http,
    ) -> None:
        """`connect` makes what carries requests; a simulation replaces the network by it."""
        self.workers = share.of_places(workers)
        self._share = share
        self._timeouts = timeouts or Timeouts()
        self.system, self._connect = system, connect
        self._endpoints: dict[str, Endpoint] = {}
        self._standings: dict[Endpoint, Standing] = {}
        self._heard: Rests = {}  # also of endpoints that nobody here has asked yet
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
        """The one endpoint of a URL; what is known of it counts if it is new here.

        If it is asked for under several names, the first one stays. If several rates are given,
        the lowest holds.
        """
        mine = replace(spec, rps=self._share.of_rate(spec.rps))
        key = fingerprint(spec.url)
        found = self._endpoints.get(key)
        if found is None:
            found = Endpoint(mine, self.workers, known, self.system)
            self._endpoints[key] = found
            self._standings[found] = Standing(found)
            if self._is_open:
                self._announce(found)
            self.rest(self._heard)
        elif mine.rps is not None and (found.spec.rps is None or mine.rps < found.spec.rps):
            found.spec = replace(found.spec, rps=mine.rps)
            found.pacer = Pacer(mine.rps)
        return found

    def standing(self, endpoint: Endpoint) -> Standing:
        return self._standings[endpoint]

    def rests(self) -> Rests:
        """The rests that other processes should keep to as well, with those that they told of."""
        now = self.system.clock()
        self._heard = {key: each for key, each in self._heard.items() if each.until > now}
        for key, endpoint in self._endpoints.items():
            until = endpoint.ready_at()
            known = self._heard.get(key)
            if until - now >= _WORTH_TELLING and (known is None or until > known.until):
                self._heard[key] = Rested(until, endpoint.trouble)
        return dict(self._heard)

    def rest(self, rests: Mapping[str, Rested]) -> None:
        """Keeps to what the providers told other processes."""
        for key, told in rests.items():
            known = self._heard.get(key)
            if known is None or told.until > known.until:
                self._heard[key] = told
            endpoint = self._endpoints.get(key)
            if endpoint is not None and endpoint.ready_at() < told.until:
                endpoint.trouble = told.trouble
                endpoint.rest(told.until, 0.0)

    def _announce(self, endpoint: Endpoint) -> None:
        metrics.WORKERS.add(self.workers)
        metrics.ENDPOINT_UP.set(1, endpoint.name)


def fingerprint(url: str) -> str:
    """What identifies a URL without telling it, as long as its key cannot be guessed."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]
