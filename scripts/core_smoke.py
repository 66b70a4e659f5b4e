"""Read a block with the compiled core that is installed, which needs no other package.

python scripts/core_smoke.py
"""

from __future__ import annotations

import json
from importlib import import_module

_ZERO = "0x" + 64 * "0"
_BLOCK = {
    "number": "0x7",
    "hash": _ZERO,
    "parentHash": _ZERO,
    "sha3Uncles": _ZERO,
    "stateRoot": _ZERO,
    "transactionsRoot": _ZERO,
    "receiptsRoot": _ZERO,
    "miner": _ZERO[:42],
    "difficulty": "0x0",
    "extraData": "0x",
    "gasLimit": "0x0",
    "gasUsed": "0x0",
    "timestamp": "0x1",
    "uncles": [],
    "transactions": [_ZERO],
}


def main() -> None:
    core = import_module("gapless_native")
    answer = json.dumps(_BLOCK).encode()
    block = (7, answer, None, None, None, True, 0, None)
    tables, good, refused, _ = core.read([block], True, ("ethereum", 0, 0), 0, 1, ["blocks"])
    assert [height for height, *_ in good] == [7], refused
    assert [*tables] == ["blocks"]
    print(f"gapless-native {core.__version__} read a block")


if __name__ == "__main__":
    main()
