"""Every exception becomes text that is short, storable and free of secrets."""

from __future__ import annotations

from time import perf_counter
from typing import NoReturn

import pytest

from gapless.ledger.records import CLASS_LIMIT, MESSAGE_LIMIT, TRACEBACK_LIMIT
from gapless.runtime.error_text import ErrorText, describe

URL = "https://user:pw@node.example/v2/KEY"
SHOWN = "https://node.example/…"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")

    __repr__ = __str__


class OddText(str):
    __slots__ = ()

    def __getitem__(self, _: object) -> NoReturn:
        raise ValueError("no part of it")

    replace = encode = __len__ = __getitem__  # type: ignore[assignment]


class Odd(Exception):
    def __str__(self) -> str:
        return OddText("odd")


class OddNames(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise KeyError("no name")


class Nameless(Exception, metaclass=OddNames):
    pass


def raised(error: BaseException) -> ErrorText:
    """The text of an error that was really raised."""
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001
        return describe(caught)


def test_the_class_the_message_and_where_it_was_raised() -> None:
    words = raised(ValueError("bad block"))
    assert (words.name, words.message) == ("ValueError", "bad block")
    assert words.traceback is not None
    assert "raise error" in words.traceback
    assert words.traceback.endswith("ValueError: bad block\n")


@pytest.mark.parametrize(
    ("error", "name", "message"),
    [
        (ValueError("a\0b\ud800c"), "ValueError", r"a\x00b\ud800c"),
        (ValueError(), "ValueError", "(no message)"),
        (KeyError("x"), "KeyError", "'x'"),
        (Unspeakable(), "Unspeakable", "(no message: its `__str__` raised ValueError)"),
        (Odd(), "Odd", "odd"),
        (Nameless("text"), "Exception", "text"),
        (OSError(f"{URL} refused"), "OSError", f"{SHOWN} refused"),
        (type("N" * 1000, (Exception,), {})("x"), "N" * (CLASS_LIMIT - 1) + "…", "x"),
    ],
)
def test_every_exception_has_a_text(error: Exception, name: str, message: str) -> None:
    words = raised(error)
    assert (words.name, words.message) == (name, message)
    assert "\0" not in str(words)
    assert "KEY" not in str(words)


def test_odd_names_in_a_traceback_are_harmless() -> None:
    odd = type("Odd", (Exception,), {})
    odd.__qualname__, odd.__module__ = "a\0b", "\ud800"
    words = raised(odd(URL))
    assert words.traceback is not None
    assert words.traceback.encode().endswith(rf"\ud800.a\x00b: {SHOWN}".encode() + b"\n")


def test_a_message_of_megabytes_is_cut_before_it_is_processed() -> None:
    began = perf_counter()
    words = raised(ValueError("x://y@z/" * 1_000_000))
    assert perf_counter() - began < 5
    assert len(words.message) <= MESSAGE_LIMIT
    assert words.traceback is not None
    assert len(words.traceback) <= TRACEBACK_LIMIT
    assert "raise error" in words.traceback


def test_a_huge_group_is_described_by_its_first_errors() -> None:
    """Each member has its own traceback; formatting them all would block the event loop."""
    group = ExceptionGroup("", [_caught(ValueError(f"bad {nth}")) for nth in range(50_000)])
    began = perf_counter()
    words = raised(group)
    assert perf_counter() - began < 1
    assert words.message.endswith("; and 49995 more")
    assert words.traceback is not None
    assert words.traceback.endswith("ValueError: bad 0\n")


def _caught(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001
        return caught


def test_the_end_of_a_deep_recursion_is_kept() -> None:
    def down(depth: int) -> None:
        if depth == 0:
            raise ValueError("the bottom")
        down(depth - 1)

    with pytest.raises(ValueError, match="bottom") as caught:
        down(500)
    words = describe(caught.value)
    assert words.traceback is not None
    assert len(words.traceback) <= TRACEBACK_LIMIT
    assert words.traceback.endswith("ValueError: the bottom\n")


def test_a_secret_in_a_line_of_source_is_redacted() -> None:
    try:
        raise ConnectionError("refused by https://user:pw@node.example/v2/KEY")
    except ConnectionError as error:
        words = describe(error)
    assert words.traceback is not None
    assert words.traceback.count(SHOWN) == 2  # the line of source, and the message
    assert "KEY" not in words.traceback


def test_a_group_names_its_members() -> None:
    inner = ExceptionGroup("inner", [KeyError("b"), OSError(URL)])
    words = raised(ExceptionGroup("outer", [ValueError("a"), inner]))
    assert words.name == "ExceptionGroup"
    assert words.message == f"ValueError: a; KeyError: 'b'; OSError: {SHOWN}"


def test_a_large_group_names_some_of_its_members() -> None:
    words = raised(ExceptionGroup("many", [ValueError("x" * 5000) for _ in range(100)]))
    assert words.message.endswith("; and 95 more")
    assert len(words.message) <= MESSAGE_LIMIT
