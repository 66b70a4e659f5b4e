"""Chains as files: one JSON answer per line; line N is block N.

A simulated chain is built once per parameters and version, and kept in a cache folder. It appears
there atomically (written beside, then renamed), and is read only if its digests match: a damaged
one is rebuilt.

    <cache>/devnode/<key>/blocks.jsonl      blocks with full transactions
                          receipts.jsonl    what the transactions of each block did
                          info.json         what it is, and the digests of both files
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, overload

import msgspec
import numpy as np

from gapless.core.errors import UsageError
from gapless.core.remedies import ChooseCache
from gapless.devnode.building import BlockBuilder, Built

BLOCKS, RECEIPTS, INFO = "blocks.jsonl", "receipts.jsonl", "info.json"
_PIECE = 1 << 20
_ATTEMPTS = 3


class Lines(Sequence[bytes]):
    """The lines of a text that is in memory or mapped there."""

    def __init__(self, text: bytes | mmap.mmap) -> None:
        self._text = text
        self._ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        start = int(self._ends[at - 1]) + 1 if at else 0
        return self._text[start : int(self._ends[at])]

    def views(self) -> list[memoryview]:
        """All lines, without a copy of any."""
        whole, ends = memoryview(self._text), self._ends.tolist()
        starts = [0, *(end + 1 for end in ends[:-1])]
        return [whole[start:end] for start, end in zip(starts, ends, strict=True)]


class Info(msgspec.Struct, frozen=True):
    """What a cached chain is."""

    version: int
    parameters: dict[str, int | bool | None]
    digests: dict[str, str]

    @property
    def digest(self) -> str:
        """The same for equal chains."""
        return self.digests[BLOCKS] + self.digests[RECEIPTS]


class StoredChain(msgspec.Struct, frozen=True):
    """A chain on disk."""

    info: Info
    blocks: Lines
    receipts: Lines


def default_cache() -> Path:
    """The user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gapless"


def stored(builder: BlockBuilder, cache: Path | None = None) -> StoredChain:
    """The chain of a builder's parameters: from the cache, or built into it."""
    home = (cache or default_cache()) / builder.folder
    folder = home / _key(builder)
    for _ in range(_ATTEMPTS):  # another process may replace it meanwhile
        if (found := _read(folder, builder)) is not None:
            return found
        try:
            _build(folder, builder)
        except OSError as error:
            raise UsageError(
                f"cannot store the chain in `{home}`: {error.strerror}",
                remedy=ChooseCache(),
            ) from error
    raise UsageError(f"`{folder}` is damaged each time it is written", hint="check the disk")


def built(builder: BlockBuilder) -> Iterable[Built]:
    """Builds the blocks in order, from the genesis."""
    parent = builder.no_parent
    for height in range(builder.parameters.blocks + 1):
        block = builder.build(height, parent)
        parent = block.hash
        yield block


def _build(folder: Path, builder: BlockBuilder) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=folder.parent) as name:
        building = Path(name)
        _write(building / "chain", builder)
        if _read(folder, builder) is not None:
            return  # another process has written the same chain
        with suppress(FileNotFoundError):
            folder.rename(building / "damaged")
        try:
            (building / "chain").rename(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another one was faster
                raise


def _key(builder: BlockBuilder) -> str:
    parameters = builder.parameters
    text = msgspec.json.encode({"version": builder.version, **parameters.recipe})
    name = f"{parameters.blocks}x{parameters.txs}-seed{parameters.seed}"
    return f"{name}-{blake2b(text, digest_size=8).hexdigest()}"


def _write(folder: Path, builder: BlockBuilder) -> None:
    folder.mkdir()
    digests = {BLOCKS: blake2b(digest_size=16), RECEIPTS: blake2b(digest_size=16)}
    with (folder / BLOCKS).open("wb") as blocks, (folder / RECEIPTS).open("wb") as receipts:
        for block in built(builder):
            for name, file, text in (
                (BLOCKS, blocks, block.block),
                (RECEIPTS, receipts, block.receipts),
            ):
                digests[name].update(text + b"\n")
                file.write(text + b"\n")
        _settle(blocks)
        _settle(receipts)
    found = {name: it.hexdigest() for name, it in digests.items()}
    info = Info(builder.version, builder.parameters.recipe, found)
    with (folder / INFO).open("wb") as file:
        file.write(msgspec.json.encode(info))
        _settle(file)


def _settle(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _read(folder: Path, builder: BlockBuilder) -> StoredChain | None:
    try:
        info = msgspec.json.decode((folder / INFO).read_bytes(), type=Info)
        if info.version != builder.version or info.parameters != builder.parameters.recipe:
            return None
        texts = {name: _mapped(folder / name) for name in (BLOCKS, RECEIPTS)}
    except (OSError, ValueError):
        return None
    if any(_digest(text) != info.digests.get(name) for name, text in texts.items()):
        return None
    return StoredChain(info, Lines(texts[BLOCKS]), Lines(texts[RECEIPTS]))


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _digest(text: mmap.mmap) -> str:
    digest = blake2b(digest_size=16)
    for start in range(0, len(text), _PIECE):
        digest.update(text[start : start + _PIECE])
    return digest.hexdigest()
