"""The wire format: nothing is lost, and malformed bytes are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.tron.protobuf import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    BadMessage,
    Message,
    WireField,
    bytes_field,
    item_field,
    number_field,
    read_fields,
    write_fields,
)

numbers = st.integers(1, 2**29 - 1)
unsigned = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 127, 128, 2**63, 2**64 - 1])
fields = st.one_of(
    st.builds(WireField, numbers, unsigned, st.just(VARINT)),
    st.builds(WireField, numbers, st.binary(max_size=300), st.just(BYTES)),
    st.builds(WireField, numbers, st.binary(min_size=8, max_size=8), st.just(FIXED64)),
    st.builds(WireField, numbers, st.binary(min_size=4, max_size=4), st.just(FIXED32)),
)


@given(st.lists(fields, max_size=8))
def test_what_is_written_is_read(message: list[WireField]) -> None:
    assert read_fields(write_fields(message)) == message


@given(st.lists(fields, max_size=8))
def test_what_is_read_is_written(message: list[WireField]) -> None:
    data = write_fields(message)
    assert write_fields(read_fields(data)) == data


@given(st.lists(fields, min_size=1, max_size=4), st.data())
def test_a_cut_message_is_refused_or_ends_between_fields(
    message: list[WireField], data: st.DataObject
) -> None:
    whole = write_fields(message)
    size = data.draw(st.integers(0, len(whole) - 1))
    try:
        found = read_fields(whole[:size])
    except BadMessage:
        return
    assert found == message[: len(found)]
    assert write_fields(found) == whole[:size]


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        found = read_fields(data)
    except BadMessage:
        return
    assert read_fields(write_fields(found)) == found


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_signed_or_not(value: int) -> None:
    message = Message(number_field(3, value))
    assert (message.signed(3), message.unsigned(3)) == (value, value % 2**64)


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        ("08", "ends within a number"),
        ("0affffffffffffffffffff01", "more than 64 bits"),
        ("0a05aa", "field 1 ends after the message"),
        ("0901", "field 1 ends after the message"),
        ("0b", "unknown wire type 3"),
        ("0001", "number 0"),
    ],
)
def test_malformed_bytes_are_refused(data: str, finding: str) -> None:
    with pytest.raises(BadMessage, match=finding):
        read_fields(bytes.fromhex(data))


def test_defaults_are_not_written_except_as_items() -> None:
    assert number_field(1, 0) + bytes_field(2, b"") == b""
    assert item_field(2, b"").hex() == "1200"


def test_a_message_follows_the_rules_of_proto3() -> None:
    first, second = number_field(1, 5), number_field(2, 6)
    data = item_field(4, first) + item_field(4, second) + number_field(1, 8) + number_field(1, 9)
    message = Message(data)
    assert message.unsigned(1) == 9
    assert (message.message(4).unsigned(1), message.message(4).unsigned(2)) == (5, 6)
    assert (message.items(4), message.octets(4)) == ([first, second], second)
    assert (message.unsigned(4), message.octets(1)) == (0, b"")
    assert message.message(7).unsigned(1) == 0
