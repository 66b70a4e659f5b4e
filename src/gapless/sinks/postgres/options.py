"""What the URL of a PostgreSQL sink says, apart from what is the driver's.

    postgresql://user@host/database?schema=public&fk=off&partition=1000000

`fk` and `partition` are decided when a sink is made. Later they may be left out, or be the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.core.errors import SinkUnusable
from gapless.core.redaction import redact
from gapless.postgres.url import split

NAMES = ("schema", "fk", "partition")
LONGEST = 63
SMALLEST = 1_000


@dataclass(frozen=True)
class Options:
    url: str  # for the driver; it may hold a password, so it is never shown
    shown: str
    schema: str
    foreign_keys: bool | None  # None: as it is there
    partition: int | None

    @classmethod
    def parse(cls, target: str) -> Options:
        url, said = split(target, NAMES)
        shown = f"`{redact(url)}`"
        schema = said.get("schema", "public")
        if not 0 < len(schema.encode()) <= LONGEST:
            raise SinkUnusable(f"`schema={schema}` makes no sense", hint="write `schema=name`")
        return cls(url, shown, schema, _switch(said.get("fk")), _size(said.get("partition")))

    def insist(self, name: str, wanted: object, there: object) -> None:
        """Refuses an option that is another one than the sink was made with."""
        if wanted is not None and wanted != there:
            said = {True: "on", False: "off", None: "off"}.get(there, there)  # type: ignore[call-overload]
            raise SinkUnusable(
                f"{self.shown} was made with `{name}={said}`",
                hint=f"leave `{name}` out, or make a new sink with `?schema=…`",
            )


def _switch(text: str | None) -> bool | None:
    if text is None:
        return None
    if text not in ("on", "off"):
        raise SinkUnusable(f"`fk={text}` makes no sense", hint="write `fk=on` or `fk=off`")
    return text == "on"


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < SMALLEST:
        raise SinkUnusable(
            f"`partition={text}` makes no sense",
            hint=f"write how many heights are in one, {SMALLEST:,} or more: `partition=1000000`",
        )
    return int(text)
