"""FetchSession blocks into a sink: from what a person asks for to the runs that store it.

request         what is asked for, with everything that can be wrong about it found
targets         endpoints and sinks by name
plan            what is stored already and what is left to do; `holding`, `branch`, `dates` find out
session         an open fetch: its nodes, its sink, its backfill, and what came of it
spec            what the ledger stores of it
job             the job that workers run; `finish_job` builds indexes once a sink is loaded
block_pipeline  between endpoints and sink, shared by the runs of a process; `reproof` proves stored
                rows again, `same_database` writes rows and progress in one transaction
stores          the stored chain that a question is about
functions       `gapless.fetch` and `gapless.verify`
"""
