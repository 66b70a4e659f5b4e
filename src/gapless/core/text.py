"""Making any text fit to be stored or shown.

Stored text is short, and of characters that every database accepts.

>>> storable("a\\0b\\ud800")
'a\\\\x00b\\\\ud800'
>>> head("too long", 4)
'too…'
"""

from __future__ import annotations

CUT = "…"


def storable(text: str) -> str:
    """The text with NULs and lone surrogates escaped, which PostgreSQL and UTF-8 cannot store."""
    return text.replace("\0", r"\x00").encode("utf-8", "backslashreplace").decode()


def head(text: str, limit: int) -> str:
    """The beginning of a text, marked where it is cut."""
    return text if len(text) <= limit else text[: limit - 1] + CUT


def tail(text: str, limit: int) -> str:
    """The last whole lines of a text, marked where it is cut.

    It never keeps a part of a line, which might be a part of a URL that redaction cannot recognize.
    """
    if len(text) <= limit:
        return text
    start = text.find("\n", len(text) - limit + 2)
    return f"{CUT}\n{text[start + 1 :]}" if start >= 0 else CUT


def plain(text: str) -> str:
    """A stranger's text on one line, without anything that a terminal would obey."""
    line = " ".join(text.split())
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in line)
