"""One request to one endpoint, and what its answer teaches about the endpoint's limits.

Invariant: whoever gets an answer from here need not think about batches or rates any more. A
refusal that cannot be laid on a single call becomes "smaller batch", until it can. A batch that
fails as a whole, for whatever reason, is tried again in the same size once; then in smaller ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace

from gapless.sources.reactions import Reaction, Refusal
from gapless.sources.rpc.endpoint import Endpoint
from gapless.sources.rpc.envelope import (
    NOT_A_NODE,
    NULL,
    Call,
    Complaint,
    Heard,
    Unreadable,
    read,
    written,
)
from gapless.sources.rpc.http import Http, Response, Trouble, unpacked
from gapless.sources.rpc.tally import Tally, measured

_TINY = 32 << 10  # bytes, below which a thread costs more than it saves
_SHARE = 0.2  # of a new size in the running mean
# In a batch, nobody knows which call a lone refusal of these kinds means.
_NOT_OF_A_BATCH = frozenset(
    {
        *(Reaction.SMALLER_RANGE, Reaction.OTHER_METHOD, Reaction.ELSEWHERE),
        *(Reaction.LATER, Reaction.ABSENT, Reaction.GIVE_UP),
    }
)


class Exchange:
    """Sends batches and learns from what comes back."""

    def __init__(
        self, http: Http, threads: Executor, tally: Tally, clock: Callable[[], float]
    ) -> None:
        self._http, self._threads, self._clock = http, threads, clock
        self.tally = tally
        self._sizes: dict[str, float] = {}  # mean bytes of a result, by kind of call

    def size(self, call: Call) -> float:
        return self._sizes.get(call.kind, 0.0)

    def batches(self, endpoint: Endpoint, calls: Mapping[int, Call]) -> Iterator[dict[int, Call]]:
        """The calls in as few requests as the endpoint takes."""
        batch: dict[int, Call] = {}
        expected = 0.0
        for at, call in calls.items():
            size = self.size(call)
            full = len(batch) >= endpoint.largest_batch()
            if batch and (full or expected + size > endpoint.bytes.value):
                yield batch
                batch, expected = {}, 0.0
            batch[at] = call
            expected += size
        if batch:
            yield batch

    async def send(
        self, endpoint: Endpoint, batch: Mapping[int, Call], sent: set[int], *, fresh: bool
    ) -> Heard:
        """What an endpoint has to say; nothing, if it rests or takes only less by now."""
        async with endpoint.gate:
            sent_at = await self._turn(endpoint, len(batch))
            if sent_at is None:
                return Heard()
            self.tally.count(endpoint.name, batch, sent)
            with measured(endpoint.name, batch) as request:
                heard = request.heard = await self._asked(endpoint, batch, sent_at, fresh=fresh)
            heard.seconds = self._clock() - sent_at
            return heard

    async def _turn(self, endpoint: Endpoint, calls: int) -> float | None:
        """Waits until so many calls may go out, and tells when; None: not like this any more."""
        async with endpoint.turn:
            wait = endpoint.pacer.wait(self._clock())
            if wait > 0:
                await asyncio.sleep(wait)
            now = self._clock()
            if endpoint.ready_at() > now or calls > endpoint.largest_batch():
                return None
            endpoint.pacer.take(calls, now)
            return now

    async def _asked(
        self, endpoint: Endpoint, batch: Mapping[int, Call], sent_at: float, *, fresh: bool
    ) -> Heard:
        try:
            response = await self._http.post(
                endpoint.spec.url, written(batch), calls=len(batch), fresh=fresh
            )
            heard = await self._read(response, batch.keys())
        except (Trouble, Unreadable) as trouble:
            return self._failed(endpoint, trouble, len(batch), sent_at)
        self._learn(endpoint, batch, heard, sent_at)
        return heard

    async def _read(self, response: Response, ids: Collection[int]) -> Heard:
        if len(response.body) < _TINY:
            heard = _heard(response, ids)
        else:
            loop = asyncio.get_running_loop()
            heard = await loop.run_in_executor(self._threads, _heard, response, ids)
        heard.complaints = [
            _blamed(_told_to_wait(each, response.retry_after), ids) for each in heard.complaints
        ]
        for each in [each for each in heard.complaints if _is_absent(each)]:
            assert each.call is not None
            heard.results[each.call] = NULL
            heard.complaints.remove(each)
        missing = len(ids) - len(heard.results)
        if missing and not heard.complaints:
            heard.complaints = [Complaint(Refusal(Reaction.AGAIN), f"{missing} answers missing")]
        return heard

    def _failed(self, endpoint: Endpoint, trouble: Exception, calls: int, sent_at: float) -> Heard:
        words, sent = str(trouble), not isinstance(trouble, Trouble) or trouble.sent
        hint = trouble.hint if isinstance(trouble, Trouble) else NOT_A_NODE
        lasting = isinstance(trouble, Trouble) and bool(hint)
        if isinstance(trouble, Trouble) and trouble.slow:
            endpoint.calls.eased(calls)
        elif sent and not lasting and endpoint.calls.failed(calls):
            endpoint.shrank(words)
            return Heard(complaints=[Complaint(Refusal(Reaction.SMALLER_BATCH), words)])
        endpoint.failed(words, sent_at, self._clock())
        complaint = Complaint(Refusal(Reaction.AGAIN), words, unreachable=lasting, hint=hint)
        return Heard(complaints=[complaint])

    def _learn(
        self, endpoint: Endpoint, batch: Mapping[int, Call], heard: Heard, sent_at: float
    ) -> None:
        now, calls = self._clock(), len(batch)
        declined = self._declined(endpoint, batch, heard, sent_at)
        if not heard.results and not declined:
            self._shrink(endpoint, calls, heard)
        reactions = {complaint.refusal.reaction for complaint in heard.complaints}
        endpoint.pacer.heard(len(heard.results), _too_many(heard, calls), now)
        if heard.results:
            endpoint.calls.held_in_part()
            endpoint.answered(limited=Reaction.SLOW_DOWN in reactions)
        if any(complaint.too_large for complaint in heard.complaints):
            endpoint.calls.eased(calls)
            expected = int(sum(map(self.size, batch.values())))
            if expected > endpoint.bytes.least:  # no provider's limit is below that
                endpoint.bytes.refused(expected, now)
        for complaint in heard.complaints:
            reaction = complaint.refusal.reaction
            if reaction is Reaction.SMALLER_BATCH:
                if not complaint.too_large and complaint.refusal.recognized:
                    endpoint.calls.refused(calls, now, complaint.refusal.most)
            elif not (reaction is Reaction.AGAIN and heard.results):
                endpoint.refused(complaint, sent_at, now)
        total = self._weigh(batch, heard)
        if not reactions:
            endpoint.calls.held(calls, now)
            endpoint.bytes.held(total, now)

    def _shrink(self, endpoint: Endpoint, calls: int, heard: Heard) -> None:
        """A batch failed as a whole, and perhaps only because it is one."""
        reactions = {complaint.refusal.reaction for complaint in heard.complaints}
        limited = Reaction.SLOW_DOWN in reactions
        if not (limited or Reaction.AGAIN in reactions):
            return
        if not endpoint.calls.failed(calls, limited=limited):
            return
        for at, each in enumerate(heard.complaints):
            if each.refusal.reaction is Reaction.AGAIN:
                endpoint.shrank(each.words)
                smaller = Refusal(Reaction.SMALLER_BATCH, recognized=False)
                heard.complaints[at] = replace(each, refusal=smaller)

    def _declined(
        self, endpoint: Endpoint, batch: Mapping[int, Call], heard: Heard, sent_at: float
    ) -> bool:
        """Whether it was methods that were refused, rather than the batch: others are answered."""
        now = self._clock()
        about_blocks = {batch[at].method for at in heard.results if batch[at].height is not None}
        endpoint.offer.answered(about_blocks, now)
        refused = {
            batch[each.call].method
            for each in heard.complaints
            if each.call is not None and not each.refusal.recognized
        } - about_blocks
        telling = bool(about_blocks) or len(batch) == 1
        declined = {each for each in refused if telling or endpoint.offer.suspects(each)}
        for method in declined:
            endpoint.offer.declined(method, sent_at, now)
        return bool(declined) and len(batch) > 1

    def _weigh(self, batch: Mapping[int, Call], heard: Heard) -> int:
        """The bytes of all results; each kind's mean moves towards its own."""
        total = 0
        for at, result in heard.results.items():
            kind, size = batch[at].kind, memoryview(result).nbytes
            total += size
            mean = self._sizes.get(kind, float(size))
            self._sizes[kind] = mean + _SHARE * (size - mean)
        return total


def _heard(response: Response, ids: Collection[int]) -> Heard:
    return read(unpacked(response), response.status, ids)


def _told_to_wait(complaint: Complaint, seconds: float | None) -> Complaint:
    if seconds is None:
        return complaint
    return replace(complaint, refusal=replace(complaint.refusal, wait_seconds=seconds))


def _too_many(heard: Heard, calls: int) -> int:
    """How many calls were refused because of a rate limit."""
    limited = [each for each in heard.complaints if each.refusal.reaction is Reaction.SLOW_DOWN]
    return calls if any(each.call is None for each in limited) else len(limited)


def _is_absent(complaint: Complaint) -> bool:
    return complaint.call is not None and complaint.refusal.reaction is Reaction.ABSENT


def _blamed(complaint: Complaint, ids: Collection[int]) -> Complaint:
    """The complaint laid where it belongs: on a call, or on the size of the batch."""
    refusal = complaint.refusal
    if len(ids) == 1:
        if refusal.reaction is Reaction.SMALLER_BATCH:  # there is no smaller one
            refusal = Refusal(Reaction.AGAIN)
        return replace(complaint, call=next(iter(ids)), refusal=refusal)
    if complaint.denied:  # if the key were wrong, single calls would be denied as well
        return replace(complaint, refusal=Refusal(Reaction.AGAIN, recognized=False))
    too_large = refusal.reaction is Reaction.SMALLER_RANGE and not (
        complaint.call is not None and (refusal.most or refusal.suggested)
    )
    if too_large or (complaint.call is None and refusal.reaction in _NOT_OF_A_BATCH):
        refusal = Refusal(Reaction.SMALLER_BATCH)
        return replace(complaint, refusal=refusal, too_large=too_large)
    return complaint
