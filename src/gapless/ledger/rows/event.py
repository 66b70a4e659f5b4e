"""Rows of `events`."""

from __future__ import annotations

import msgspec

from gapless.core.events import AnyEvent, Codec, Event


class NewEvent(msgspec.Struct, frozen=True):
    """The columns of an event that do not depend on who appends it and when."""

    idempotency_key: str
    backfill_id: str
    type: str
    payload: str

    @classmethod
    def of(cls, event: Event) -> NewEvent:
        name = type(event).__name__
        return cls(event.idempotency_key, event.backfill_id, name, Codec.payload(event))


class StoredEvent(NewEvent, frozen=True):
    seq: int
    actor: str
    at: float

    def event(self) -> AnyEvent:
        return Codec.decode(self.type, self.backfill_id, self.payload)
