"""Check blocks before they are stored, and again when stored rows are verified.

`levels` maps levels to checks, and `check` runs them; `consistency`, `proofs`, `derived` and
`senders` contain the checks. `completion` fills in fields that a node omitted.
"""
