"""Runs cryo by its Python package, in its own environment.

    python cryo_job.py URL FOLDER FIRST LAST DATASET…

Chunks that failed raise nothing there; their number is in what it returns, so it becomes the exit
code here. Now and then the interpreter crashes at its end, while cryo's threads still run. All is
written by then, so it is left without that.
"""

import os
import sys

import cryo  # type: ignore[import-not-found]

url, folder, first, last, *datasets = sys.argv[1:]
heights = f"{first}:{int(last) + 1}"  # its end is not included
done = cryo.freeze(datasets, blocks=[heights], rpc=url, output_dir=folder, verbose=False)
os._exit(1 if done["n_errored"] else 0)
