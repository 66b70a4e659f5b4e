"""What is held against a block before it is stored, and again when stored rows are verified.

`levels` says which checks a person asks for, and `check` makes them; `consistency`, `proofs`,
`derived` and `senders` are the checks themselves. `completion` fills in what a node left out and
arithmetic can tell.
"""
