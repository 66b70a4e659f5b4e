"""Conversion of Arrow values, a column at a time. Pure.

All bytes of a column are converted to hex at once; only the rare number above 2^64 is converted
individually.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from gapless.schema import compute as pc


def hex_texts(array: pa.Array) -> pa.Array:
    """Bytes as `0x…`."""
    if array.null_count == len(array):
        return pa.nulls(len(array), pa.string())
    whole = array.cast(pa.binary())
    _, offsets, data = whole.buffers()
    edges = np.frombuffer(offsets, np.int32, len(whole) + 1, whole.offset * 4)
    digits = hexlify(memoryview(data or b"")[edges[0] : edges[-1]])
    places = pa.py_buffer(((edges - edges[0]) * 2).tobytes())
    texts = pa.StringArray.from_buffers(len(whole), places, pa.py_buffer(digits))
    return _where_valid(array, joined("0x", texts))


def decimal_texts(array: pa.Array) -> pa.Array:
    """Numbers of 32 bytes, big-endian, by their decimal digits."""
    if array.null_count == len(array):
        return pa.nulls(len(array), pa.string())
    found = np.frombuffer(array.buffers()[1], ">u8", len(array) * 4, array.offset * 32)
    words = found.reshape(-1, 4)
    texts = pa.array(words[:, 3].astype(np.uint64)).cast(pa.string())
    wide = words[:, :3].any(axis=1)
    if wide.any():
        exact = [str(int.from_bytes(each.tobytes(), "big")) for each in words[wide]]
        texts = pc.replace_with_mask(texts, pa.array(wide), pa.array(exact, pa.string()))
    return _where_valid(array, texts)


def joined(*parts: pa.Array | str, by: str = "") -> pa.Array:
    """Concatenates texts row by row, separated by `by`; null if one of them is null."""
    values = [scalar(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*values, scalar(by))


@cache
def scalar(text: str | None) -> pa.Scalar:
    """Returns a text as an Arrow scalar, cached because Arrow looks for pandas each time."""
    return pa.scalar(text, pa.string())


def looked_up(keys: pa.Array, known: pa.Array, values: pa.Array) -> pa.Array:
    """Returns the value of each key; null if the key is unknown."""
    return values.take(pc.index_in(keys, value_set=known))


def gathered(columns: Sequence[pa.Array]) -> pa.Array:
    """Returns, for each row, the list of its non-null values in column order."""
    size = len(columns[0])
    valid = np.stack([it.is_valid().to_numpy(zero_copy_only=False) for it in columns], axis=1)
    edges = np.concatenate([[0], np.cumsum(valid.sum(axis=1))]).astype(np.int32)
    # In the concatenated columns, the value of row r and column c is at c * size + r.
    places = (np.arange(size)[:, None] + np.arange(len(columns)) * size)[valid]
    return pa.ListArray.from_arrays(edges, pa.concat_arrays(columns).take(pa.array(places)))


def grouped(keys: pa.Array, heights: pa.Array, values: pa.Array) -> pa.Array:
    """Returns, for each of consecutive keys, the values of that height; heights must ascend."""
    wanted = keys.to_numpy()
    edges = np.append(wanted, wanted.max(initial=0) + np.uint64(1))
    places = np.searchsorted(heights.to_numpy(), edges)
    return pa.ListArray.from_arrays(places.astype(np.int32), values)


def _where_valid(array: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(array.is_valid(), texts, scalar(None)) if array.null_count else texts
