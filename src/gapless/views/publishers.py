"""Publishers: `publish ls` and `publish show`."""

from __future__ import annotations

from msgspec import Struct

from gapless.publishers.publication import shown_name
from gapless.publishers.status import PublicationStatus


class PublisherView(Struct, frozen=True, kw_only=True):
    """A publisher: what it is, and how far it is."""

    name: str
    network: str
    sink: str
    server: str
    stream: str
    phase: str
    leader: str | None
    fence: int | None
    start: int | None
    head: int | None
    last_synced_block: int | None
    published: int
    missing: int
    kept_changes: int
    entries: int
    set_aside: dict[str, str]
    trouble: str | None


def publisher_view(status: PublicationStatus) -> PublisherView:
    wanted, state = status.publication, status.state
    leader = None if state is None else state.leader
    leads = leader is not None and leader.seconds > 0
    record = None if state is None else state.record
    return PublisherView(
        name=wanted.name,
        network=shown_name(wanted.network),
        sink=wanted.sink,
        server=wanted.url.shown,
        stream=wanted.stream,
        phase=status.phase,
        leader=leader.owner if leader is not None and leads else None,
        fence=None if leader is None else leader.fence,
        start=wanted.start if record is None else record.start,
        head=None if record is None else record.head,
        last_synced_block=None if record is None else record.complete_to,
        published=0 if record is None else len(record.heights),
        missing=len(status.missing),
        kept_changes=status.unread,
        entries=0 if state is None else state.entries,
        set_aside={} if state is None else dict(state.aside),
        trouble=status.trouble,
    )
