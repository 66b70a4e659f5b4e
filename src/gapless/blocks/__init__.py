"""Fetches blocks into a sink: from the user's request to the runs that store the blocks.

request         builds and validates a request
targets         endpoints and sinks by name
plan            finds what is stored and what is left to do, with `holding`, `branch` and `dates`
session         an open fetch: its nodes, its sink, its backfill and its result
spec            what the ledger stores of a fetch
job             the job that workers run; `finish_job` builds indexes once a sink is loaded
block_pipeline  connects endpoints and sink, shared by the runs of a process; `reproof` re-verifies
                stored rows, `same_database` writes rows and progress in one transaction
stores          resolves the stored chain that a command or function refers to
functions       `gapless.fetch` and `gapless.verify`
"""
