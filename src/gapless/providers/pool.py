"""Several providers used as one: `ask` returns an answer from one of them.

    async with Pool([EndpointSpec("a", url)], queries, chain_id=1) as pool:
        answers = await pool.ask([Call("eth_blockNumber")])

Invariants: all results of one `ask` come from one endpoint; only failed or missing calls are
retried; no endpoint is used before it has reported its chain id; no error contains a URL. The pool
handles temporary failures (timeouts, dropped connections, rate limits, incomplete answers) for as
long as the patience lasts. It raises only what the caller must handle: `Unavailable`,
`MissingHistory`, `Refused`, and a `UsageError` for an endpoint of another chain.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from msgspec import Raw

from gapless.core.errors import UsageError
from gapless.providers.call_counts import CallCounts
from gapless.providers.calls import BatchReply, Call, CallError, is_null
from gapless.providers.choice import choose
from gapless.providers.contact import (
    TELLING,
    TLS_HINT,
    Absent,
    chain_id_failure,
    is_unfit,
    meet,
    no_chain_id,
)
from gapless.providers.endpoint import Endpoint, EndpointSpec
from gapless.providers.exchange import Exchange
from gapless.providers.gather import gather_all
from gapless.providers.limits import delay
from gapless.providers.pending import Answers, PendingAsk
from gapless.providers.profile import Profile
from gapless.providers.provider_errors import Reaction
from gapless.providers.queries import HeadNotice, NodeQueries
from gapless.providers.refused import raise_refused
from gapless.providers.registry import Providers
from gapless.providers.standing import Served
from gapless.providers.subscription import heads
from gapless.providers.survey import find_beginning
from gapless.providers.transport import Timeouts

_LATER_AT_MOST = 3  # how often each endpoint is asked for a block that it does not have yet
_LATER_DELAY = 0.25  # seconds, before the second attempt; then longer
_AGAIN_DELAY = 0.03
_ABSENT_REST = 10.0


class Pool:
    """The endpoints of one chain, from entering to leaving."""

    def __init__(
        self,
        specs: Sequence[EndpointSpec],
        queries: NodeQueries,
        *,
        workers: int = 8,
        chain_id: int | None = None,
        max_calls: int | None = None,
        patience: float = 60.0,
        timeouts: Timeouts | None = None,
        profiles: Mapping[str, Profile] | None = None,
        providers: Providers | None = None,
    ) -> None:
        """A view on the providers of this process; without `providers`, it opens its own."""
        if not specs or len({spec.name for spec in specs}) < len(specs):
            raise UsageError("endpoint names must be unique, and at least one is required")
        self._owned: Providers | None = None
        if providers is None:
            providers = self._owned = Providers(workers, timeouts=timeouts)
        self._providers = providers
        self._queries = queries
        self.system = providers.system
        self._clock, self._chance = self.system.clock, self.system.chance
        known = profiles or {}
        found = [self._providers.endpoint(spec, known.get(spec.name, Profile())) for spec in specs]
        self._endpoints = list(dict.fromkeys(found))  # two names may have one URL
        self.chain_id = chain_id
        self.patience = patience
        self._call_counts = CallCounts(max_calls)
        self._resting = 0
        self._chain_id_locks = {each.name: asyncio.Lock() for each in self._endpoints}
        self._chain_id_checked: set[str] = set()
        self._strange_chain_ids: Counter[str] = Counter()  # answers that are not one
        self._exchange: Exchange
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._owned is not None:
            await self._stack.enter_async_context(self._owned)
        self._exchange = Exchange(
            self._queries.wire,
            self._providers.http,
            self._providers.threads,
            self._call_counts,
            self._clock,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(each.name for each in self._endpoints)

    @property
    def ready(self) -> frozenset[str]:
        """The endpoints that may be asked now: those that do not rest after a failure."""
        now = self._clock()
        return frozenset(each.name for each in self._endpoints if each.ready_at() <= now)

    @property
    def announcing(self) -> frozenset[str]:
        """The endpoints that announce new heads: those with a WebSocket."""
        if self._queries.subscription is None:
            return frozenset()
        return frozenset(each.name for each in self._endpoints if each.spec.ws)

    def heads(self, endpoint: str, *, silence: float) -> AsyncGenerator[HeadNotice, None]:
        """Yield the heads that an endpoint announces, until the connection fails; see `heads`."""
        (spec,) = (each.spec for each in self._endpoints if each.name == endpoint)
        return heads(spec, self._queries, self._providers.http, silence=silence)

    @property
    def calls(self) -> Counter[str]:
        """Calls sent, by method."""
        return self._call_counts.calls

    @property
    def requests(self) -> int:
        return self._call_counts.requests

    @property
    def retries(self) -> int:
        """Calls that were sent again."""
        return self._call_counts.retries

    @property
    def used_up(self) -> bool:
        """Whether the limit of calls is reached."""
        return self._call_counts.used_up

    @property
    def slots(self) -> int:
        """How many requests may be in flight to one endpoint, even if all now allow fewer."""
        return max(self._providers.workers, *(each.slots() for each in self._endpoints))

    @property
    def in_flight(self) -> int:
        return sum(each.requests.in_flight for each in self._endpoints)

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn, or for an endpoint to recover."""
        return self._resting + sum(each.requests.waiting for each in self._endpoints)

    def served(self) -> dict[str, Served]:
        """Return what each endpoint has done for this pool, and its current state."""
        now = self._clock()
        return {
            each.name: self._providers.standing(each).served(
                self._call_counts.calls_to[each.name], now
            )
            for each in self._endpoints
        }

    def profiles(self) -> dict[str, Profile]:
        now = self._clock()
        return {each.name: each.profile(now) for each in self._endpoints}

    def profiles_by_key(self) -> dict[str, Profile]:
        """Return the profiles by the keys under which they are saved."""
        profiles = self.profiles()
        return {each.spec.key: profiles[each.name] for each in self._endpoints}

    def room(self, calls: Sequence[Call]) -> int:
        """Return how many times a request has room for calls like these, as known now."""
        size = max(1.0, sum(map(self._exchange.size, calls)))
        rooms = (
            min(
                each.largest_batch(counts_calls=self._queries.wire.counts_calls) // len(calls),
                int(each.bytes.value / size),
            )
            for each in self._endpoints
        )
        return max(1, *rooms)

    async def meet(self) -> list[Absent]:
        """Contact every endpoint and return those that cannot be used for now.

        Raises `Unavailable` if none can, and `UsageError` if one is on another chain.
        """
        contacts = {each.name: self._contact(each) for each in self._endpoints}
        absent = await meet(contacts, self.patience)
        for each in self._endpoints:
            for found in absent:
                if found.endpoint == each.name:  # the others are asked first for a while
                    each.trouble = found.trouble
                    each.rest(self._clock(), _ABSENT_REST)
        return absent

    def doubt_below(self, name: str, height: int) -> None:
        """Ask an endpoint last below a height where it had no data and another one did."""
        for endpoint in self._endpoints:
            if endpoint.name == name:
                endpoint.offer.doubt_below(height, self._clock())

    async def ask(
        self,
        calls: Sequence[Call],
        *,
        avoid: Collection[str] = (),
        patience: float | None = None,
    ) -> Answers:
        """Return a result for every call, all from one endpoint, if possible not one to avoid.

        If there is no other, an endpoint to avoid is asked over a new connection.
        """
        wait = self.patience if patience is None else patience
        pending = PendingAsk(calls, frozenset(avoid), wait, self._clock())
        while True:
            choice = choose(self._endpoints, pending, self._clock())
            endpoint = choice.endpoint
            if choice.wait > 0:
                await self._wait(pending, endpoint, choice.wait)
                continue
            answered = await self._round(pending, endpoint, fresh=choice.fresh)
            for reply in answered:
                self._react(pending, endpoint, reply)
            await self._survey(endpoint, _reported_missing(pending, answered))
            if not pending.pending(endpoint.name):
                return pending.answers(endpoint.name)

    async def _wait(self, pending: PendingAsk, endpoint: Endpoint, seconds: float) -> None:
        pending.wait_for(endpoint.name, seconds, endpoint.answers)
        self._resting += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._resting -= 1

    async def _round(
        self, pending: PendingAsk, endpoint: Endpoint, *, fresh: bool
    ) -> list[BatchReply]:
        """Send all pending calls in as few requests as possible."""
        if endpoint.name not in self._chain_id_checked:
            refused = await self._check_chain_id(endpoint)
            if refused is not None:
                return [chain_id_failure(endpoint, self._queries.chain, refused)]
        batches = [*self._exchange.batches(endpoint, pending.pending(endpoint.name))]
        replies = await gather_all(
            [self._exchange.send(endpoint, batch, pending.sent, fresh=fresh) for batch in batches]
        )
        for reply in replies:
            self._notice(endpoint, reply)
        return replies

    async def _check_chain_id(self, endpoint: Endpoint) -> BatchReply | None:
        """Check the endpoint's chain id once; return the reply if it did not answer."""
        async with self._chain_id_locks[endpoint.name]:
            chain_id = endpoint.chain_id  # another pool may have asked
            if chain_id is None:
                reply = await self._exchange.send(
                    endpoint, {0: self._queries.chain}, set(), fresh=False
                )
                self._notice(endpoint, reply)
                if not reply.results:
                    return reply
                chain_id = self._queries.chain_id(reply.results[0])
                if chain_id is None and self._may_be_chance(endpoint, reply.results[0]):
                    return no_chain_id(endpoint, reply)
            if chain_id is None:
                raise UsageError(
                    f"endpoint `{endpoint.name}` does not report a chain id",
                    hint="Is it a node of this kind of network?",
                )
            endpoint.chain_id = chain_id
            if self.chain_id not in (None, chain_id):
                raise UsageError(
                    f"endpoint `{endpoint.name}` is on chain {chain_id}, not {self.chain_id}",
                    hint="use only endpoints of the requested network",
                )
            self.chain_id = chain_id
            self._chain_id_checked.add(endpoint.name)
            return None

    def _may_be_chance(self, endpoint: Endpoint, answer: Raw) -> bool:
        """Whether a node behind a balancer may have given an answer without a chain id."""
        if is_null(answer):
            return True
        self._strange_chain_ids[endpoint.name] += 1
        return self._strange_chain_ids[endpoint.name] < TELLING

    def _notice(self, endpoint: Endpoint, reply: BatchReply) -> None:
        self._providers.standing(endpoint).notice(reply, self._clock())

    async def _contact(self, endpoint: Endpoint) -> Absent | None:
        """Retry the check of the chain id; return why it fails, if lasting or out of patience."""
        name, failures, until = endpoint.name, 0, self._clock() + self.patience
        refusals = 0  # in a row
        while (reply := await self._check_chain_id(endpoint)) is not None:
            failures += 1
            last = reply.errors[-1] if reply.errors else None
            trouble, hint = endpoint.trouble, last.hint if last else ""
            refusals = refusals + 1 if last is not None and is_unfit(last) else 0
            if last is not None and (last.lasting or refusals >= TELLING):
                return Absent(name, trouble, hint)
            if failures == 1 and await self._providers.http.speaks_tls(endpoint.spec.url):
                return Absent(name, trouble, TLS_HINT)
            now = self._clock()
            at = max(now + delay(failures, self._chance()), endpoint.ready_at())
            if at > until:
                return Absent(name, trouble, hint)
            await asyncio.sleep(at - now)
        return None

    async def _survey(self, endpoint: Endpoint, gone: Sequence[Call]) -> None:
        """Find out where an endpoint's history begins after it reported blocks missing."""
        for call in gone:
            now = self._clock()
            known = endpoint.offer.earliest((call.method,), now)
            if known > (call.height or 0) or not endpoint.offer.wants_survey(call.method, now):
                continue
            query = {0: self._queries.head}
            reply = await self._exchange.send(endpoint, query, set(), fresh=False)
            head = self._queries.height(reply.results[0]) if reply.results else None
            if head is None:
                continue
            begins = await find_beginning(self._exchange, endpoint, self._queries, call, head)
            if begins is not None:
                endpoint.offer.begins_at(call.method, begins, self._clock())

    def _react(self, pending: PendingAsk, endpoint: Endpoint, reply: BatchReply) -> None:
        """Update the pending `ask` from a reply; the endpoint has learned from it already."""
        now = self._clock()
        pending.take(endpoint.name, reply)
        for at, result in reply.results.items():
            if pending.calls[at].method == self._queries.head.method:
                endpoint.record_head(self._queries.height(result) or 0, now)
        for error in reply.errors:
            if error.call is not None:
                self._react_to(error, pending, endpoint)
        last = {error.refusal.reaction: error for error in reply.errors}
        if later := last.get(Reaction.LATER):
            pending.not_yet[endpoint.name] += 1
            if pending.not_yet.total() >= _LATER_AT_MOST * len(self._endpoints):
                raise_refused(endpoint, pending.calls[later.call or 0], later)
            wait = delay(pending.not_yet[endpoint.name], self._chance(), _LATER_DELAY)
            pending.hold_off(endpoint.name, now + wait)
        if Reaction.ELSEWHERE in last:
            pending.elsewheres[endpoint.name] += 1
            wait = delay(pending.elsewheres[endpoint.name], self._chance())
            pending.hold_off(endpoint.name, now + wait)
        if Reaction.SMALLER_BATCH in last:
            pending.troubles.clear()  # the next request is a different one
        if Reaction.AGAIN in last:
            pending.record_failure(endpoint.name, reply.seconds)
            wait = delay(pending.troubles[endpoint.name], self._chance(), _AGAIN_DELAY)
            pending.hold_off(endpoint.name, now + wait)

    def _react_to(self, error: CallError, pending: PendingAsk, endpoint: Endpoint) -> None:
        assert error.call is not None
        call = pending.calls[error.call]
        match error.refusal.reaction:
            case Reaction.GIVE_UP | Reaction.SMALLER_RANGE:
                raise_refused(endpoint, call, error)
            case Reaction.OTHER_METHOD:
                endpoint.offer.without(call.method, self._clock())
            case Reaction.ELSEWHERE if call.height is None:
                raise_refused(endpoint, call, error)
            case Reaction.ELSEWHERE:
                assert call.height is not None
                endpoint.trouble = error.message
                pending.gone = (
                    call.height if pending.gone is None else min(pending.gone, call.height)
                )


def _reported_missing(pending: PendingAsk, answered: Sequence[BatchReply]) -> list[Call]:
    """Return, by method, the call for the highest block that an endpoint reports missing."""
    found: dict[str, Call] = {}
    for each in (error for reply in answered for error in reply.errors):
        if each.call is None or each.refusal.reaction is not Reaction.ELSEWHERE:
            continue
        call = pending.calls[each.call]
        highest = found.get(call.method)
        if call.height is not None and (highest is None or call.height > (highest.height or 0)):
            found[call.method] = call
    return list(found.values())
