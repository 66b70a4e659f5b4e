"""Read and write the wire format of Protocol Buffers, as far as TRON's messages need it.

Only the format is implemented, not a schema: a message is a list of numbered fields. What a field
means is decided where it is used. Reading loses nothing: writing the same fields gives the same
bytes, if numbers were written in their shortest form, as every encoder does.

    >>> read_fields(bytes.fromhex("08011202abcd"))
    [WireField(number=1, value=1, wire=0), WireField(number=2, value=b'\\xab\\xcd', wire=2)]
    >>> (number_field(1, 1) + bytes_field(2, b"\\xab\\xcd")).hex()
    '08011202abcd'
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_WIDTHS = {FIXED64: 8, FIXED32: 4}
_MODULUS = 1 << 64
_LONGEST = 10  # bytes of a 64-bit varint
_ENDS = 0x80  # a byte below it is the last one of a number
_SHORT = [bytes([value]) for value in range(_ENDS)]  # most numbers are keys and lengths


class BadMessage(ValueError):
    """These bytes are not a message."""


class WireField(NamedTuple):
    """One field. Numbers are unsigned here; fixed-width ones are stored as their bytes."""

    number: int
    value: int | bytes
    wire: int


def read_fields(data: bytes) -> list[WireField]:
    """Return the fields of a message in their order; raise `BadMessage` if it is malformed."""
    found = []
    at, end = 0, len(data)
    while at < end:
        key, at = (data[at], at + 1) if data[at] < _ENDS else _read_varint(data, at)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if not number:
            raise BadMessage("a field has the number 0")
        if wire == VARINT:
            value, at = _read_varint(data, at)
        else:
            if wire == BYTES:
                width, at = _read_varint(data, at)
            elif wire in _WIDTHS:
                width = _WIDTHS[wire]
            else:
                raise BadMessage(f"field {number} has the unknown wire type {wire}")
            if width > end - at:
                raise BadMessage(f"field {number} ends after the message")
            value, at = data[at : at + width], at + width
        found.append(WireField(number, value, wire))
    return found


def write_fields(fields: Iterable[WireField]) -> bytes:
    """Return the message that has these fields in this order."""
    return b"".join(map(_written, fields))


def number_field(number: int, value: int) -> bytes:
    """Encode a number; nothing if it is zero, the default."""
    return _written(WireField(number, value % _MODULUS, VARINT)) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """Encode bytes, text or a message; nothing if it is empty, the default."""
    return item_field(number, value) if value else b""


def item_field(number: int, value: bytes) -> bytes:
    """Encode one item of a repeated field, or a message that is present though empty."""
    return _written(WireField(number, value, BYTES))


class Message:
    """A message whose fields are looked up by number, by the rules of proto3.

    The last of several values counts, and several submessages are merged. An absent field has its
    default, and a field of another wire type than expected is unknown, so it counts as absent.
    """

    __slots__ = ("_numbers", "_parts")

    def __init__(self, data: bytes) -> None:
        self._numbers: dict[int, int] = {}
        self._parts: dict[int, list[bytes]] = {}
        for number, value, wire in read_fields(data):
            if isinstance(value, int):
                self._numbers[number] = value
            elif wire == BYTES:
                self._parts.setdefault(number, []).append(value)

    def unsigned(self, number: int) -> int:
        """Return a number as its two's complement."""
        return self._numbers.get(number, 0)

    def signed(self, number: int) -> int:
        """Return an `int64`."""
        found = self._numbers.get(number, 0)
        return found if found < _MODULUS >> 1 else found - _MODULUS

    def octets(self, number: int) -> bytes:
        return self._parts[number][-1] if number in self._parts else b""

    def items(self, number: int) -> list[bytes]:
        """Return all values of a repeated field."""
        return self._parts.get(number, [])

    def message(self, number: int) -> Message:
        """Return a submessage; an absent one is empty."""
        return Message(b"".join(self.items(number)))


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of up to 64 bits, and where it ends."""
    value = 0
    for place in range(_LONGEST):
        if at + place >= len(data):
            raise BadMessage("the message ends within a number")
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < _ENDS:
            return value % _MODULUS, at + place + 1
    raise BadMessage("a number has more than 64 bits")


def _varint(value: int) -> bytes:
    if value < _ENDS:
        return _SHORT[value]
    found = bytearray()
    while value >= _ENDS:
        found.append(value & 0x7F | _ENDS)
        value >>= 7
    found.append(value)
    return bytes(found)


def _written(field: WireField) -> bytes:
    key = _varint(field.number << 3 | field.wire)
    if isinstance(field.value, int):
        return key + _varint(field.value)
    if field.wire == BYTES:
        return key + _varint(len(field.value)) + field.value
    return key + field.value
