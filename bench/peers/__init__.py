"""Gapless and its peers do the same job, with the same node and the same faults.

    python -m bench.peers                  all of them; writes docs/benchmarks.md
    python -m bench.peers --quick cryo     a tenth of the blocks, one peer; writes nothing

The job is the blocks, transactions and logs of a chain whose every row is known. So the comparison
shows not only how long a tool takes, but also what it lost, what it duplicated, and whether it said
so. Each tool is a separate process with its defaults and its own environment.
"""
