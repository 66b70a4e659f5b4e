"""Gapless and its peers do the same job, against the same node, with the same faults.

    python -m bench.peers                  all of them; writes docs/benchmarks.md
    python -m bench.peers --quick cryo     a tenth of the blocks, one peer, nothing is written

The job is blocks, transactions and logs of a chain whose every row is known. So it is not only
measured how long a tool takes, but also what it lost, what it has twice, and whether it said so.
Each tool is a process of its own with its defaults, and has an environment of its own.
"""
