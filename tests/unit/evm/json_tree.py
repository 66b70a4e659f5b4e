"""JSON as a tree whose leaves are bytes, so that what no JSON library writes can be written.

For example repeated keys, escapes, numbers of any size and bytes that are not UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass
class Object:
    """The members of a JSON object, in order; a key can be repeated."""

    members: list[tuple[bytes, Node]]

    def get(self, key: str) -> Node | None:
        """Return the value of a key that is not repeated; None if it is absent."""
        return dict(self.members).get(quoted(key))


Node: TypeAlias = "Object | list[Any] | bytes"
Container: TypeAlias = "Object | list[Any]"


def taken_apart(answer: bytes) -> Node:
    """Return the tree of an answer."""
    return _tree(json.loads(answer))


def rendered(node: Node, space: bytes = b"") -> bytes:
    """Return the bytes of a tree, with white space wherever JSON allows it."""
    if isinstance(node, Object):
        pairs = (key + space + b":" + rendered(it, space) for key, it in node.members)
        text = b"{" + space + (b"," + space).join(pairs) + b"}"
    elif isinstance(node, list):
        text = b"[" + space + b",".join(rendered(it, space) for it in node) + b"]"
    else:
        text = node
    return space + text + space


def containers(node: Node) -> Iterator[Container]:
    """Yield every object and list of a tree, outer ones first."""
    if isinstance(node, bytes):
        return
    yield node
    children = [it for _, it in node.members] if isinstance(node, Object) else node
    for child in children:
        yield from containers(child)


def size(within: Container) -> int:
    return len(within.members if isinstance(within, Object) else within)


def at(within: Container, place: int) -> Node:
    found: Node = within.members[place][1] if isinstance(within, Object) else within[place]
    return found


def put(within: Container, place: int, node: Node) -> None:
    if isinstance(within, Object):
        within.members[place] = within.members[place][0], node
    else:
        within[place] = node


def quoted(text: str) -> bytes:
    """Return the JSON of a text, in UTF-8."""
    return json.dumps(text, ensure_ascii=False).encode()


def escaped(text: bytes) -> bytes:
    """Write the characters of a JSON string as escapes."""
    return b'"' + b"".join(b"\\u%04x" % ord(it) for it in json.loads(text)) + b'"'


def is_hex(node: Node) -> bool:
    return isinstance(node, bytes) and node.startswith(b'"0x')


def _tree(value: Any) -> Node:
    if isinstance(value, dict):
        return Object([(quoted(key), _tree(it)) for key, it in value.items()])
    if isinstance(value, list):
        return [_tree(it) for it in value]
    return json.dumps(value).encode()
