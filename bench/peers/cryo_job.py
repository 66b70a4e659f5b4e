"""Runs cryo through its Python package, in its own environment.

    python cryo_job.py URL FOLDER FIRST LAST DATASET…

cryo does not raise for failed chunks but returns their number, which becomes the exit code here.
The interpreter sometimes crashes at exit, while cryo's threads still run. Everything is written by
then, so this script exits without the usual shutdown.
"""

import os
import sys

import cryo  # type: ignore[import-not-found]

url, folder, first, last, *datasets = sys.argv[1:]
heights = f"{first}:{int(last) + 1}"  # its end is not included
done = cryo.freeze(datasets, blocks=[heights], rpc=url, output_dir=folder, verbose=False)
os._exit(1 if done["n_errored"] else 0)
