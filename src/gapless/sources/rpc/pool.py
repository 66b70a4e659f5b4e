"""Several providers as one: ask, and somebody answers.

    async with Pool([EndpointSpec("a", url)], chain_id=1) as pool:
        answers = await pool.ask([Call("eth_blockNumber")])

Invariants: all results of one `ask` come from one endpoint; only what failed or is missing is
asked again; no endpoint is used before it has named its chain; no URL is ever in an error. Trouble
that may pass (timeouts, drops, rate limits, half an answer) is dealt with here for as long as the
patience lasts. Only what the caller must react to is raised: `Unavailable`, `MissingHistory`,
`Refused`, and a `UsageError` for an endpoint of another chain.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import NoReturn, Self

import msgspec

from gapless.core.errors import UsageError
from gapless.sources.reactions import Reaction, Refusal
from gapless.sources.rpc.choice import choose
from gapless.sources.rpc.contact import TLS_HINT, Absent, meet
from gapless.sources.rpc.endpoint import Endpoint, EndpointSpec
from gapless.sources.rpc.envelope import Call, Complaint, Heard
from gapless.sources.rpc.errand import Answers, Errand
from gapless.sources.rpc.exchange import Exchange
from gapless.sources.rpc.http import Timeouts
from gapless.sources.rpc.limits import delay
from gapless.sources.rpc.profile import Profile
from gapless.sources.rpc.providers import Providers
from gapless.sources.rpc.refused import Refused
from gapless.sources.rpc.standing import Served
from gapless.sources.rpc.survey import beginning
from gapless.sources.rpc.tally import Tally
from gapless.sources.together import together

_LATER_AT_MOST = 3  # times that each endpoint is asked for what it does not have yet
_LATER_DELAY = 0.25  # seconds, before the second attempt; then longer
_AGAIN_DELAY = 0.03
_ABSENT_REST = 10.0
_CHAIN = {0: Call("eth_chainId")}
_HEAD = {0: Call("eth_blockNumber")}


class Pool:
    """The endpoints of one chain, from entering to leaving."""

    def __init__(
        self,
        specs: Sequence[EndpointSpec],
        *,
        workers: int = 8,
        chain_id: int | None = None,
        max_calls: int | None = None,
        patience: float = 60.0,
        timeouts: Timeouts | None = None,
        profiles: Mapping[str, Profile] | None = None,
        providers: Providers | None = None,
    ) -> None:
        """A view on the providers of this process; without them, it has its own."""
        if not specs or len({spec.name for spec in specs}) < len(specs):
            raise UsageError("endpoints need different names, and at least one is needed")
        self._owned: Providers | None = None
        if providers is None:
            providers = self._owned = Providers(workers, timeouts=timeouts)
        self._providers = providers
        self.system = providers.system
        self._clock, self._chance = self.system.clock, self.system.chance
        known = profiles or {}
        found = [self._providers.endpoint(spec, known.get(spec.name, Profile())) for spec in specs]
        self._endpoints = list(dict.fromkeys(found))  # two names may stand for one URL
        self.chain_id = chain_id
        self.patience = patience
        self._tally = Tally(max_calls)
        self._resting = 0
        self._introductions = {each.name: asyncio.Lock() for each in self._endpoints}
        self._introduced_here: set[str] = set()
        self._exchange: Exchange
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._owned is not None:
            await self._stack.enter_async_context(self._owned)
        self._exchange = Exchange(
            self._providers.http, self._providers.threads, self._tally, self._clock
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
    def calls(self) -> Counter[str]:
        """Calls sent, by method."""
        return self._tally.calls

    @property
    def requests(self) -> int:
        return self._tally.requests

    @property
    def retries(self) -> int:
        """Calls that were sent again."""
        return self._tally.retries

    @property
    def used_up(self) -> bool:
        """Whether all calls were sent that are allowed."""
        return self._tally.used_up

    @property
    def in_flight(self) -> int:
        return sum(each.gate.inside for each in self._endpoints)

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn, or for an endpoint to recover."""
        return self._resting + sum(each.gate.waiting for each in self._endpoints)

    def served(self) -> dict[str, Served]:
        """What each endpoint has done for this pool, and how it stands now."""
        now = self._clock()
        return {
            each.name: self._providers.standing(each).served(self._tally.calls_to[each.name], now)
            for each in self._endpoints
        }

    def profiles(self) -> dict[str, Profile]:
        now = self._clock()
        return {each.name: each.profile(now) for each in self._endpoints}

    def profiles_by_key(self) -> dict[str, Profile]:
        """The same, by what they are kept as."""
        profiles = self.profiles()
        return {each.spec.key: profiles[each.name] for each in self._endpoints}

    def room(self, calls: Sequence[Call]) -> int:
        """How often one request may hold calls like all of these, by what is known now."""
        size = max(1.0, sum(map(self._exchange.size, calls)))
        rooms = (
            min(each.largest_batch() // len(calls), int(each.bytes.value / size))
            for each in self._endpoints
        )
        return max(1, *rooms)

    async def meet(self) -> list[Absent]:
        """Makes first contact with every endpoint; tells which cannot be used for now.

        Raises `Unavailable` if none can, and `UsageError` if one is of another chain.
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
        """An endpoint had nothing below a height where another had: it is asked last there."""
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
        """A result for every call, all from one endpoint, not one of those to avoid if possible.

        With no other endpoint, those to avoid are asked over a fresh connection.
        """
        waits = self.patience if patience is None else patience
        errand = Errand(calls, frozenset(avoid), waits, self._clock())
        while True:
            choice = choose(self._endpoints, errand, self._clock())
            endpoint = choice.endpoint
            if choice.wait > 0:
                await self._wait(errand, endpoint, choice.wait)
                continue
            answered = await self._round(errand, endpoint, fresh=choice.fresh)
            for heard in answered:
                self._react(errand, endpoint, heard)
            await self._survey(endpoint, _gone(errand, answered))
            if not errand.pending(endpoint.name):
                return errand.answers(endpoint.name)

    async def _wait(self, errand: Errand, endpoint: Endpoint, seconds: float) -> None:
        errand.wait_for(endpoint.name, seconds, endpoint.answers)
        self._resting += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._resting -= 1

    async def _round(self, errand: Errand, endpoint: Endpoint, *, fresh: bool) -> list[Heard]:
        """Asks for all that is pending, in as few requests as can be."""
        if endpoint.name not in self._introduced_here:
            refused = await self._introduced(endpoint)
            if refused is not None:
                return [_not_introduced(endpoint, refused)]
        batches = [*self._exchange.batches(endpoint, errand.pending(endpoint.name))]
        heard = await together(
            [self._exchange.send(endpoint, batch, errand.sent, fresh=fresh) for batch in batches]
        )
        for each in heard:
            self._notice(endpoint, each)
        return heard

    async def _introduced(self, endpoint: Endpoint) -> Heard | None:
        """Makes sure of the chain, once; what was heard instead, if there was no answer."""
        async with self._introductions[endpoint.name]:
            chain_id = endpoint.chain_id  # another pool may have asked
            if chain_id is None:
                heard = await self._exchange.send(endpoint, _CHAIN, set(), fresh=False)
                self._notice(endpoint, heard)
                if not heard.results:
                    return heard
                chain_id = _number(heard.results[0])
            if chain_id is None:
                raise UsageError(f"endpoint `{endpoint.name}` names no chain: is it an EVM node?")
            endpoint.chain_id = chain_id
            if self.chain_id not in (None, chain_id):
                raise UsageError(
                    f"endpoint `{endpoint.name}` is on chain {chain_id}, not {self.chain_id}",
                    hint="all endpoints must be of the network that is asked for",
                )
            self.chain_id = chain_id
            self._introduced_here.add(endpoint.name)
            return None

    def _notice(self, endpoint: Endpoint, heard: Heard) -> None:
        self._providers.standing(endpoint).notice(heard, self._clock())

    async def _contact(self, endpoint: Endpoint) -> Absent | None:
        """Insists on an introduction; what stands against it, if that is certain or takes long."""
        name, failures, until = endpoint.name, 0, self._clock() + self.patience
        while (heard := await self._introduced(endpoint)) is not None:
            failures += 1
            last = heard.complaints[-1] if heard.complaints else None
            trouble, hint = endpoint.trouble, last.hint if last else ""
            if last is not None and last.lasting:
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
        """Finds out what an endpoint has that says some blocks are gone."""
        for call in gone:
            now = self._clock()
            known = endpoint.offer.earliest((call.method,), now)
            if known > (call.height or 0) or not endpoint.offer.wants_survey(call.method, now):
                continue
            asked = await self._exchange.send(endpoint, _HEAD, set(), fresh=False)
            head = _number(asked.results[0]) if asked.results else None
            if head is None:
                continue
            begins = await beginning(self._exchange, endpoint, call, head)
            if begins is not None:
                endpoint.offer.begins_at(call.method, begins, self._clock())

    def _react(self, errand: Errand, endpoint: Endpoint, heard: Heard) -> None:
        """Draws the errand's own conclusions; the endpoint has drawn its own."""
        now = self._clock()
        errand.take(endpoint.name, heard)
        for at, result in heard.results.items():
            if errand.calls[at].method == "eth_blockNumber":
                endpoint.heard_of_head(_number(result) or 0, now)
        for complaint in heard.complaints:
            if complaint.call is not None:
                self._react_to(complaint, errand, endpoint)
        last = {complaint.refusal.reaction: complaint for complaint in heard.complaints}
        if later := last.get(Reaction.LATER):
            errand.laters[endpoint.name] += 1
            if errand.laters.total() >= _LATER_AT_MOST * len(self._endpoints):
                _tell(endpoint, errand.calls[later.call or 0], later)
            waits = delay(errand.laters[endpoint.name], self._chance(), _LATER_DELAY)
            errand.hold_off(endpoint.name, now + waits)
        if Reaction.ELSEWHERE in last:
            errand.elsewheres[endpoint.name] += 1
            waits = delay(errand.elsewheres[endpoint.name], self._chance())
            errand.hold_off(endpoint.name, now + waits)
        if Reaction.SMALLER_BATCH in last:
            errand.troubles.clear()  # what comes next is another attempt, not the same again
        if Reaction.AGAIN in last:
            errand.suffer(endpoint.name, heard.seconds)
            waits = delay(errand.troubles[endpoint.name], self._chance(), _AGAIN_DELAY)
            errand.hold_off(endpoint.name, now + waits)

    def _react_to(self, complaint: Complaint, errand: Errand, endpoint: Endpoint) -> None:
        assert complaint.call is not None
        call = errand.calls[complaint.call]
        match complaint.refusal.reaction:
            case Reaction.GIVE_UP | Reaction.SMALLER_RANGE:
                _tell(endpoint, call, complaint)
            case Reaction.OTHER_METHOD:
                endpoint.offer.without(call.method, self._clock())
            case Reaction.ELSEWHERE if call.height is None:
                _tell(endpoint, call, complaint)
            case Reaction.ELSEWHERE:
                assert call.height is not None
                endpoint.trouble = complaint.words
                errand.gone = call.height if errand.gone is None else min(errand.gone, call.height)


def _gone(errand: Errand, answered: Sequence[Heard]) -> list[Call]:
    """By method, the highest block that an endpoint says it does not have."""
    found: dict[str, Call] = {}
    for each in (complaint for heard in answered for complaint in heard.complaints):
        if each.call is None or each.refusal.reaction is not Reaction.ELSEWHERE:
            continue
        call = errand.calls[each.call]
        highest = found.get(call.method)
        if call.height is not None and (highest is None or call.height > (highest.height or 0)):
            found[call.method] = call
    return list(found.values())


def _not_introduced(endpoint: Endpoint, heard: Heard) -> Heard:
    """Why an endpoint does not name its chain: the calls that wait for it are not to blame."""
    for complaint in heard.complaints:
        if complaint.refusal.reaction in (Reaction.GIVE_UP, Reaction.OTHER_METHOD):
            _tell(endpoint, _CHAIN[0], complaint)
    again = [
        Complaint(Refusal(Reaction.AGAIN), each.words)
        for each in heard.complaints
        if each.refusal.reaction not in (Reaction.SLOW_DOWN, Reaction.SWITCH)  # it rests
    ]
    return Heard(complaints=again, seconds=heard.seconds)


def _tell(endpoint: Endpoint, call: Call, complaint: Complaint) -> NoReturn:
    """Raises what the caller must react to."""
    where = "" if call.height is None else f" at {call.height:,}"
    words = endpoint.spec.redacted(complaint.words)[:300]
    message = f"endpoint `{endpoint.name}` refuses {call.method}{where}: {words}"
    raise Refused(message, complaint.refusal)


def _number(raw: msgspec.Raw) -> int | None:
    """A quantity such as `"0x1f"`."""
    try:
        return int(msgspec.json.decode(raw, type=str), 16)
    except (ValueError, msgspec.MsgspecError):
        return None
