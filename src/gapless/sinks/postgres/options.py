"""The options in the URL of a PostgreSQL sink, apart from those of the driver.

    postgresql://user@host/database?schema=public&fk=off&partition=1000000

`fk` and `partition` are fixed when a sink is created; later they can be omitted or repeated.
`prepared_statements=off` is for a proxy that pools transactions. Without it, the sink detects such
a proxy by its first error.
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
    foreign_keys: bool | None  # None: as the sink was created
    partition: int | None
    prepared_statements: bool = True

    @classmethod
    def parse(cls, target: str) -> Options:
        url, given = split(target, NAMES)
        shown = f"`{redact(url)}`"
        schema = given.get("schema", "public")
        if not 0 < len(schema.encode()) <= LONGEST:
            raise SinkUnusable(f"`schema={schema}` is not valid", hint="write `schema=name`")
        return cls(
            url,
            shown,
            schema,
            _switch("fk", given),
            _size(given.get("partition")),
            _switch("prepared_statements", given) is not False,
        )

    def require_same(self, name: str, wanted: object, actual: object) -> None:
        """Raise if an option differs from the one that the sink was created with."""
        if wanted is not None and wanted != actual:
            given = {True: "on", False: "off", None: "off"}.get(actual, actual)  # type: ignore[call-overload]
            raise SinkUnusable(
                f"{self.shown} was created with `{name}={given}`",
                hint=f"omit `{name}`, or create a new sink with `?schema=…`",
            )


def _switch(name: str, given: Mapping[str, str]) -> bool | None:
    text = given.get(name)
    if text not in (None, "on", "off"):
        raise SinkUnusable(f"`{name}={text}` is not valid", hint=f"write `{name}=on` or `off`")
    return None if text is None else text == "on"


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < SMALLEST:
        raise SinkUnusable(
            f"`partition={text}` is not valid",
            hint=f"write the number of heights per partition, at least {SMALLEST:,}:"
            " `partition=1000000`",
        )
    return int(text)
