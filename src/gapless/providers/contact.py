"""First contact with endpoints, while a user waits for it.

Failures that waiting does not fix (a denied key, a refused connection, an unknown host) are
reported at once, with a question that points to the cause. A slow endpoint is not an absent one:
until another endpoint has answered, it may take as long as any request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from gapless.core.errors import Unavailable
from gapless.providers.calls import BatchReply, Call, CallError
from gapless.providers.endpoint import Endpoint
from gapless.providers.provider_errors import Reaction, Refusal
from gapless.providers.refused import raise_refused

TLS_HINT = "Does this port expect `https://`?"
TELLING = 3
"""How often an endpoint must answer so before it is not taken for a chance."""
_UNFIT = frozenset({Reaction.OTHER_METHOD, Reaction.ELSEWHERE})


class Absent(NamedTuple):
    """An endpoint that cannot be used for now, what happened, and a hint at the cause."""

    endpoint: str
    trouble: str
    hint: str = ""

    def __str__(self) -> str:
        return f"endpoint `{self.endpoint}` cannot be used: {self.trouble}"


Contacts = Mapping[str, Coroutine[Any, Any, Absent | None]]
"""By endpoint name, a coroutine that contacts it and returns why it is absent, if it is."""


async def meet(contacts: Contacts, patience: float) -> list[Absent]:
    """Return the endpoints that are absent; raise `Unavailable` if all are.

    Once one endpoint has answered, the others may take no longer than the patience.
    """
    tasks = {asyncio.create_task(contact): name for name, contact in contacts.items()}
    try:
        done, waiting = await asyncio.wait(
            tasks, timeout=patience, return_when=asyncio.FIRST_EXCEPTION
        )
        while waiting and all(task.result() is not None for task in done):
            more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done |= more
        found = [absent for task in done if (absent := task.result()) is not None]
        found += [Absent(tasks[task], f"no answer within {patience:g} s") for task in waiting]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if len(found) == len(tasks):
        raise all_absent(found)
    return found


def all_absent(absent: Sequence[Absent]) -> Unavailable:
    """Build the error for the case that no endpoint can be used."""
    if len(absent) == 1:
        return Unavailable(str(absent[0]), hint=absent[0].hint or None)
    reasons = ", ".join(f"`{each.endpoint}` ({each.trouble})" for each in absent)
    hints = " ".join(f"`{each.endpoint}`: {each.hint}" for each in absent if each.hint)
    return Unavailable(f"no endpoint can be used: {reasons}", hint=hints or None)


def is_unfit(error: CallError) -> bool:
    """Whether an endpoint refuses as another kind of node does, or as one without history.

    A single refusal of this kind may be a chance.
    """
    return error.refusal.reaction in _UNFIT


def no_chain_id(endpoint: Endpoint, reply: BatchReply) -> BatchReply:
    """Convert an empty answer about the chain id to a failure, which is retried."""
    endpoint.trouble = "it does not identify its chain"
    error = CallError(Refusal(Reaction.AGAIN), endpoint.trouble)
    return BatchReply(errors=[error], seconds=reply.seconds)


def chain_id_failure(endpoint: Endpoint, asked: Call, reply: BatchReply) -> BatchReply:
    """Convert a failed check of the chain id, which must not count against the waiting calls."""
    for error in reply.errors:
        if error.refusal.reaction in (Reaction.GIVE_UP, Reaction.OTHER_METHOD):
            raise_refused(endpoint, asked, error)
    again = [
        CallError(Refusal(Reaction.AGAIN), each.message)
        for each in reply.errors
        if each.refusal.reaction not in (Reaction.SLOW_DOWN, Reaction.SWITCH)  # it rests
    ]
    return BatchReply(errors=again, seconds=reply.seconds)
