"""What the URL of a PostgreSQL sink says, apart from what is the driver's.

    postgresql://user@host/database?schema=public&fk=off&partition=1000000

`fk` and `partition` are decided when a sink is made. Later they may be left out, or be the same.
`prepared_statements=off` spares a proxy that pools transactions what would be found out by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gapless.core.errors import SinkUnusable
from gapless.core.redaction import redact
from gapless.postgres.url import split

NAMES = ("schema", "fk", "partition", "prepared_statements")
LONGEST = 63
SMALLEST = 1_000


@dataclass(frozen=True)
class Options:
    url: str  # for the driver; it may hold a password, so it is never shown
    shown: str
    schema: str
    foreign_keys: bool | None  # None: as it is there
    partition: int | None
    prepared_statements: bool = True

    @classmethod
    def parse(cls, target: str) -> Options:
        url, said = split(target, NAMES)
        shown = f"`{redact(url)}`"
        schema = said.get("schema", "public")
        if not 0 < len(schema.encode()) <= LONGEST:
            raise SinkUnusable(f"`schema={schema}` is not valid", hint="write `schema=name`")
        return cls(
            url,
            shown,
            schema,
            _switch("fk", said),
            _size(said.get("partition")),
            _switch("prepared_statements", said) is not False,
        )

    def insist(self, name: str, wanted: object, there: object) -> None:
        """Refuses an option that is another one than the sink was made with."""
        if wanted is not None and wanted != there:
            said = {True: "on", False: "off", None: "off"}.get(there, there)  # type: ignore[call-overload]
            raise SinkUnusable(
                f"{self.shown} was made with `{name}={said}`",
                hint=f"leave `{name}` out, or make a new sink with `?schema=…`",
            )


def _switch(name: str, said: Mapping[str, str]) -> bool | None:
    text = said.get(name)
    if text not in (None, "on", "off"):
        raise SinkUnusable(f"`{name}={text}` is not valid", hint=f"write `{name}=on` or `off`")
    return None if text is None else text == "on"


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < SMALLEST:
        raise SinkUnusable(
            f"`partition={text}` is not valid",
            hint=f"write how many heights are in one, {SMALLEST:,} or more: `partition=1000000`",
        )
    return int(text)
