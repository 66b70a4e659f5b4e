"""Send one request to one endpoint, and learn the endpoint's limits from its answer.

Invariant: callers do not have to handle batch sizes or rates. A refusal that cannot be attributed
to a single call becomes "smaller batch" until it can. A batch that fails as a whole, for any
reason, is retried once in the same size and then in smaller ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace

from gapless.providers.call_counts import CallCounts, measured
from gapless.providers.calls import NULL, BatchReply, Call, CallError, MalformedReply
from gapless.providers.endpoint import Endpoint
from gapless.providers.http import Http, decompressed
from gapless.providers.provider_errors import Reaction, Refusal
from gapless.providers.request_queue import RequestSize
from gapless.providers.transport import Response, TransportFailure
from gapless.providers.wire import Wire

_TINY = 32 << 10  # bytes, below which a thread costs more than it saves
_SHARE = 0.2  # of a new size in the running mean
# A single refusal of one of these kinds does not say which call of the batch it refers to.
_AMBIGUOUS_IN_BATCH = frozenset(
    {
        *(Reaction.SMALLER_RANGE, Reaction.OTHER_METHOD, Reaction.ELSEWHERE),
        *(Reaction.LATER, Reaction.ABSENT, Reaction.GIVE_UP),
    }
)

# These refer to a block, so a smaller batch finds out which one, but its size is not a limit.
_OF_A_BLOCK = frozenset({Reaction.ELSEWHERE, Reaction.LATER, Reaction.ABSENT})


class Exchange:
    """Sends batches and learns from the answers."""

    def __init__(
        self,
        wire: Wire,
        http: Http,
        threads: Executor,
        call_counts: CallCounts,
        clock: Callable[[], float],
    ) -> None:
        self._wire, self._http = wire, http
        self._threads, self._clock = threads, clock
        self.call_counts = call_counts
        self._sizes: dict[str, float] = {}  # mean bytes of a result, by kind of call

    def size(self, call: Call) -> float:
        return self._sizes.get(call.kind, 0.0)

    def batches(self, endpoint: Endpoint, calls: Mapping[int, Call]) -> Iterator[dict[int, Call]]:
        """Split the calls into as few requests as the endpoint accepts."""
        batch: dict[int, Call] = {}
        expected, last = 0.0, None
        for at, call in calls.items():
            size = self.size(call)
            if last is not None and not (
                self._wire.joins(last, call)
                and self._has_room(endpoint, len(batch) + 1, expected + size)
            ):
                yield batch
                batch, expected = {}, 0.0
            batch[at] = last = call
            expected += size
        if batch:
            yield batch

    def _has_room(self, endpoint: Endpoint, calls: int, expected: float) -> bool:
        """Whether a request may hold this many calls, whose answer has this many bytes."""
        size = RequestSize(calls, calls if self._wire.counts_calls else 1)
        return expected <= endpoint.bytes.value and endpoint.has_room(size)

    async def send(
        self, endpoint: Endpoint, batch: Mapping[int, Call], sent: set[int], *, fresh: bool
    ) -> BatchReply:
        """Send a batch; the reply is empty if the endpoint now rests or takes only less."""
        counted = self._wire.counted(batch)
        async with endpoint.requests.turn(RequestSize(len(batch), len(counted))) as sent_at:
            if sent_at is None:
                return BatchReply()
            self.call_counts.count(endpoint.name, counted, sent)
            with measured(endpoint.name, counted) as request:
                reply = request.reply = await self._post(endpoint, batch, sent_at, fresh=fresh)
            reply.seconds = self._clock() - sent_at
            return reply

    async def _post(
        self, endpoint: Endpoint, batch: Mapping[int, Call], sent_at: float, *, fresh: bool
    ) -> BatchReply:
        try:
            path, body = self._wire.request(batch)
            response = await self._http.post(
                endpoint.spec.url_of(path),
                body,
                headers=endpoint.spec.headers,
                calls=len(batch),
                fresh=fresh,
            )
            reply = await self._read(response, batch)
        except (TransportFailure, MalformedReply) as trouble:
            return self._failed(endpoint, trouble, batch, sent_at)
        self._learn(endpoint, batch, reply, sent_at)
        return reply

    async def _read(self, response: Response, batch: Mapping[int, Call]) -> BatchReply:
        if len(response.body) < _TINY:
            reply = self._decode(response, batch)
        else:
            loop = asyncio.get_running_loop()
            reply = await loop.run_in_executor(self._threads, self._decode, response, batch)
        ids = batch.keys()
        reply.errors = [
            _attribute(_with_retry_after(each, response.retry_after), ids) for each in reply.errors
        ]
        for each in [each for each in reply.errors if _is_absent(each)]:
            assert each.call is not None
            reply.results[each.call] = NULL
            reply.errors.remove(each)
        missing = len(ids) - len(reply.results)
        if missing and not reply.errors:
            reply.errors = [CallError(Refusal(Reaction.AGAIN), f"{missing} answers missing")]
        return reply

    def _decode(self, response: Response, batch: Mapping[int, Call]) -> BatchReply:
        return self._wire.read(decompressed(response), response.status, batch)

    def _size_matters(self, batch: Mapping[int, Call]) -> bool:
        """Whether the outcome says something about the size of requests that hold several calls."""
        return len(batch) > 1 or self._wire.shares(next(iter(batch.values())))

    def _failed(
        self, endpoint: Endpoint, trouble: Exception, batch: Mapping[int, Call], sent_at: float
    ) -> BatchReply:
        message, sent = str(trouble), not isinstance(trouble, TransportFailure) or trouble.sent
        hint = trouble.hint if isinstance(trouble, TransportFailure) else self._wire.not_a_node
        calls = len(batch) if self._size_matters(batch) else 0
        lasting = isinstance(trouble, TransportFailure) and bool(hint)
        if isinstance(trouble, TransportFailure) and trouble.slow:
            if calls:
                endpoint.calls.shrink(calls)
        elif calls and sent and not lasting and endpoint.calls.failed(calls):
            endpoint.shrank(message)
            return BatchReply(errors=[CallError(Refusal(Reaction.SMALLER_BATCH), message)])
        endpoint.failed(message, sent_at, self._clock())
        error = CallError(Refusal(Reaction.AGAIN), message, unreachable=lasting, hint=hint)
        return BatchReply(errors=[error])

    def _learn(
        self, endpoint: Endpoint, batch: Mapping[int, Call], reply: BatchReply, sent_at: float
    ) -> None:
        now, calls, matters = self._clock(), len(batch), self._size_matters(batch)
        counted = len(self._wire.counted(batch))
        declined = self._declined(endpoint, batch, reply, sent_at)
        if matters and not reply.results and not declined:
            self._shrink(endpoint, calls, reply)
        reactions = {error.refusal.reaction for error in reply.errors}
        answered = min(counted, len(reply.results))
        endpoint.pacer.record(answered, _rate_limited(reply, counted), now)
        if reply.results:
            if matters:
                endpoint.calls.answered_in_part()
            endpoint.answered(limited=Reaction.SLOW_DOWN in reactions)
        if any(error.too_large for error in reply.errors):
            endpoint.calls.shrink(calls)
            expected = int(sum(map(self.size, batch.values())))
            if expected > endpoint.bytes.least:  # no provider's limit is below that
                endpoint.bytes.refused(expected, now)
        for error in reply.errors:
            reaction = error.refusal.reaction
            if reaction is Reaction.SMALLER_BATCH:
                if not error.refusal.recognized:
                    endpoint.calls.shrink(calls)
                elif not error.too_large:
                    endpoint.calls.refused(calls, now, error.refusal.most)
            elif not (reaction is Reaction.AGAIN and reply.results):
                endpoint.refused(error, sent_at, now)
        total = self._record_sizes(batch, reply)
        if not reactions:
            if matters:
                endpoint.calls.confirm(calls, now)
            endpoint.bytes.confirm(total, now)

    def _shrink(self, endpoint: Endpoint, calls: int, reply: BatchReply) -> None:
        """Handle a batch that failed as a whole, perhaps because of its size."""
        reactions = {error.refusal.reaction for error in reply.errors}
        limited = Reaction.SLOW_DOWN in reactions
        if not (limited or Reaction.AGAIN in reactions):
            return
        if not endpoint.calls.failed(calls, limited=limited):
            return
        for at, each in enumerate(reply.errors):
            if each.refusal.reaction is Reaction.AGAIN:
                endpoint.shrank(each.message)
                smaller = Refusal(Reaction.SMALLER_BATCH, recognized=False)
                reply.errors[at] = replace(each, refusal=smaller)

    def _declined(
        self, endpoint: Endpoint, batch: Mapping[int, Call], reply: BatchReply, sent_at: float
    ) -> bool:
        """Whether methods were refused rather than the batch, as other methods are answered."""
        now = self._clock()
        about_blocks = {batch[at].method for at in reply.results if batch[at].height is not None}
        endpoint.offer.answered(about_blocks, now)
        refused = {
            batch[each.call].method
            for each in reply.errors
            if each.call is not None and not each.refusal.recognized
        } - about_blocks
        telling = bool(about_blocks) or len(batch) == 1
        declined = {each for each in refused if telling or endpoint.offer.suspects(each)}
        for method in declined:
            endpoint.offer.declined(method, sent_at, now)
        return bool(declined) and len(batch) > 1

    def _record_sizes(self, batch: Mapping[int, Call], reply: BatchReply) -> int:
        """Return the bytes of all results, and update the mean size of each kind of call."""
        total = 0
        for at, result in reply.results.items():
            kind, size = batch[at].kind, memoryview(result).nbytes
            total += size
            mean = self._sizes.get(kind, float(size))
            self._sizes[kind] = mean + _SHARE * (size - mean)
        return total


def _with_retry_after(error: CallError, seconds: float | None) -> CallError:
    if seconds is None:
        return error
    return replace(error, refusal=replace(error.refusal, wait_seconds=seconds))


def _rate_limited(reply: BatchReply, calls: int) -> int:
    """Return how many calls were refused because of a rate limit."""
    limited = [each for each in reply.errors if each.refusal.reaction is Reaction.SLOW_DOWN]
    return calls if any(each.call is None for each in limited) else len(limited)


def _is_absent(error: CallError) -> bool:
    return error.call is not None and error.refusal.reaction is Reaction.ABSENT


def _attribute(error: CallError, ids: Collection[int]) -> CallError:
    """Attribute the error to a call, or to the size of the batch."""
    refusal = error.refusal
    if len(ids) == 1:
        if refusal.reaction is Reaction.SMALLER_BATCH:  # it cannot be smaller
            refusal = Refusal(Reaction.AGAIN)
        return replace(error, call=next(iter(ids)), refusal=refusal)
    if error.denied:  # if the key were wrong, single calls would be denied as well
        return replace(error, refusal=Refusal(Reaction.AGAIN, recognized=False))
    too_large = refusal.reaction is Reaction.SMALLER_RANGE and not (
        error.call is not None and (refusal.most or refusal.suggested)
    )
    if too_large or (error.call is None and refusal.reaction in _AMBIGUOUS_IN_BATCH):
        about_size = refusal.reaction not in _OF_A_BLOCK
        refusal = Refusal(Reaction.SMALLER_BATCH, recognized=about_size)
        return replace(error, refusal=refusal, too_large=too_large)
    return error
