"""Places of movements and of pages as text, so that a person or a program can hand them back.

A movement is named by its block, kind, transaction, position in it and position in a batch:

    >>> from gapless.chains.movements import MovementKind
    >>> key = MovementKey(1, 18_000_000, MovementKind.TOKEN, 3, 5, -1)
    >>> movement_text(key)
    '18000000:token:3:5'
    >>> parse_movement(1, "18000000:token:3:5") == key
    True
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from gapless.chains.movements import NOWHERE, MovementKey, MovementKind
from gapless.core.errors import UsageError
from gapless.wallets.records import HistoryPlace

_POSITIONS = 3
_STORED = tuple[int, int, int, int, int, int, str, bytes]


def movement_text(key: MovementKey) -> str:
    """The name of a movement on its chain; positions that it does not have are left out."""
    positions = [key.transaction_index, key.position, key.batch_position]
    while positions and positions[-1] == NOWHERE:
        positions.pop()
    return ":".join([str(key.block_number), key.kind.value, *map(str, positions)])


def parse_movement(chain_id: int, text: str) -> MovementKey:
    """The key of a movement by its name; raise `UsageError` if it is not one."""
    block, _, rest = text.partition(":")
    kind, *positions = rest.split(":")
    try:
        numbers = [int(each) for each in positions]
        if len(numbers) > _POSITIONS or min(numbers, default=0) < NOWHERE or int(block) < 0:
            raise ValueError
        numbers += [NOWHERE] * (_POSITIONS - len(numbers))
        return MovementKey(chain_id, int(block), MovementKind(kind), *numbers)
    except ValueError:
        raise UsageError(
            f"`{text}` is not a movement", hint="take it from the `id` of the wallet's history"
        ) from None


def page_text(place: HistoryPlace) -> str:
    """Where a listing stopped."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(place)).decode().rstrip("=")


def parse_page(text: str) -> HistoryPlace:
    """Where a listing stopped, to continue it; raise `UsageError` if it is not such a text."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return HistoryPlace(*msgspec.msgpack.decode(data, type=_STORED))
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise UsageError(
            "this is not the end of a page", hint="take it from `next` of the previous page"
        ) from None
