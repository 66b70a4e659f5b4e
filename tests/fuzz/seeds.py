"""Write the answers that the fuzz targets of the compiled core begin with.

    python -m tests.fuzz.seeds FOLDER

Each file is a byte of options, the block, a zero byte, and the receipts, as `native/fuzz` splits
them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from gapless.devnode import Parameters
from tests.data.recorded import real_blocks
from tests.evm_answers import SMALL, light, raw_block, simulated_answers, small_real_answer
from tests.unit.evm.answers import HEIGHT, rich_block

OPTIONS = 4  # whether a block is light, and whether it is read in full
PARAMETERS = Parameters(blocks=8, txs=3, fewest=0, seed=7)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as cache:
        raws, _ = simulated_answers(PARAMETERS, range(5), Path(cache))
    raws += [raw_block(HEIGHT, *rich_block()), light(raws[2])]
    raws += [small_real_answer(at)[0] for at in range(len(SMALL)) if real_blocks()]
    for number, raw in enumerate(raws):
        parts = [bytes(it) for it in (raw.block, raw.receipts) if it is not None]
        for options in range(OPTIONS):
            content = bytes([options]) + b"\0".join(parts)
            (folder / f"seed-{number}-{options}").write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
