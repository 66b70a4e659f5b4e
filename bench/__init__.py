"""What Gapless costs, measured against what cannot be avoided.

    python -m bench                    everything
    python -m bench decode claims      some of it

Each module holds one measurement. Figures of one row come from one process, one after the other in
turns, so that whatever else the machine does falls on both sides; the ratios are what counts.
The ledger is measured against bare SQL, a fetch against its sink's raw limit, decoding against
`json` and loops.
"""
