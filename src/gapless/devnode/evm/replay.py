"""Recorded chains, served as they were recorded, byte for byte.

A folder holds `blocks.jsonl.gz` and `receipts.jsonl.gz`, line N being block N as a real node
answered it, and `info.json` with at least `chainId`. Files that are not compressed do as well.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import msgspec

from gapless.core.errors import UsageError
from gapless.devnode.chain import Chain
from gapless.devnode.evm.blocks import builder_above
from gapless.devnode.store import BLOCKS, INFO, RECEIPTS, Lines


class _Info(msgspec.Struct, rename="camel"):
    chain_id: int


def replayed(folder: Path) -> Chain:
    """The chain recorded in a folder."""
    try:
        info = msgspec.json.decode((folder / INFO).read_bytes(), type=_Info)
        blocks, receipts = _lines(folder, BLOCKS), _lines(folder, RECEIPTS)
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError) as error:
        raise UsageError(
            f"`{folder}` holds no recorded chain: {error}",
            hint=f"it needs `{BLOCKS}.gz`, `{RECEIPTS}.gz`, and `{INFO}` with `chainId`",
        ) from error
    if not blocks or len(blocks) != len(receipts):
        raise UsageError(
            f"`{folder}` has {len(blocks):,} blocks, but receipts of {len(receipts):,}",
            hint="line N of both files belongs to block N",
        )
    return Chain(info.chain_id, blocks, receipts, builder_above(info.chain_id))


def _lines(folder: Path, name: str) -> Lines:
    plain = folder / name
    if plain.exists():
        text = plain.read_bytes()
    else:
        text = gzip.decompress((folder / f"{name}.gz").read_bytes())
    return Lines(text if text.endswith(b"\n") else text + b"\n")
