"""The checks of a block before it is stored, and again when stored rows are verified.

`levels` maps levels to checks, and `check` runs them; `consistency`, `proofs`, `derived` and
`senders` are the checks themselves. `completion` computes fields that a node left out.
"""
