"""What Gapless costs, compared with what cannot be avoided.

    python -m bench                    everything
    python -m bench decode claims      some of it

Each module is one measurement. The figures of a row come from one process and are taken in turns,
so that other load on the machine affects both sides; the ratios are what counts. The ledger is
compared with bare SQL, a fetch with its sink's raw limit, decoding with `json` and loops.
"""
