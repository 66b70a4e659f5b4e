"""First contact with endpoints, while a person waits for it.

What cannot get better by waiting (a denied key, a refused port, a host that nobody knows) is told
at once, with a question that leads to its cause. A slow endpoint is not an absent one: as long as
no other endpoint has answered, it may take all the time that a request may take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from gapless.core.errors import Unavailable

TLS_HINT = "Does this port expect `https://`?"


class Absent(NamedTuple):
    """An endpoint that cannot be used for now, why, and what may be the cause."""

    endpoint: str
    trouble: str
    hint: str = ""

    def __str__(self) -> str:
        return f"endpoint `{self.endpoint}` cannot be used: {self.trouble}"


Contacts = Mapping[str, Coroutine[Any, Any, Absent | None]]
"""By the endpoint's name, what makes contact with it."""


async def meet(contacts: Contacts, patience: float) -> list[Absent]:
    """The endpoints that are absent; raises if all are.

    Once one endpoint has answered, the others get no more than the patience.
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
        raise nobody(found)
    return found


def nobody(absent: Sequence[Absent]) -> Unavailable:
    """No endpoint can be used."""
    if len(absent) == 1:
        return Unavailable(str(absent[0]), hint=absent[0].hint or None)
    told = ", ".join(f"`{each.endpoint}` ({each.trouble})" for each in absent)
    hints = " ".join(f"`{each.endpoint}`: {each.hint}" for each in absent if each.hint)
    return Unavailable(f"no endpoint can be used: {told}", hint=hints or None)
