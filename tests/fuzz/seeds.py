"""Write the inputs that the fuzz targets of the compiled core begin with.

    python -m tests.fuzz.seeds FOLDER

Those of `read` are a byte of options, the block, a zero byte, and the receipts, as `native/fuzz`
splits them. Those of `rows` begin with changes to the rows of such answers, and those of `values`
are any bytes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from gapless.devnode import Parameters
from tests.data.recorded import real_blocks
from tests.evm_answers import SMALL, light, raw_block, simulated_answers, small_real_answer
from tests.unit.evm.answers import HEIGHT, rich_block

OPTIONS = (0, 1, 2, 64, 66)  # light, in full, with all checks: see native/fuzz/src/answers.rs
PARAMETERS = Parameters(blocks=8, txs=3, fewest=0, seed=7)
CHANGE_BYTES = 8  # see native/fuzz/src/rows.rs


def main(folder: Path) -> None:
    rng = random.Random(7)
    for target in ("read", "rows", "values"):
        (folder / target).mkdir(parents=True, exist_ok=True)
    for number, answer in enumerate(_answers()):
        (folder / "read" / f"seed-{number}").write_bytes(answer)
        changes = rng.randrange(4)
        content = bytes([changes]) + rng.randbytes(changes * CHANGE_BYTES) + answer
        (folder / "rows" / f"seed-{number}").write_bytes(content)
        (folder / "values" / f"seed-{number}").write_bytes(rng.randbytes(300))


def _answers() -> Iterator[bytes]:
    with TemporaryDirectory() as cache:
        raws, _ = simulated_answers(PARAMETERS, range(5), Path(cache))
    raws += [raw_block(HEIGHT, *rich_block()), light(raws[2])]
    raws += [small_real_answer(at)[0] for at in range(len(SMALL)) if real_blocks()]
    for raw in raws:
        parts = [bytes(it) for it in (raw.block, raw.receipts) if it is not None]
        for options in OPTIONS:
            yield bytes([options]) + b"\0".join(parts)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
