"""The rules of Gapless, pure: no I/O, no clock, no randomness, no asyncio.

Everything here is a value or a function of values, so that the ledger, the worker and the
tests can share one definition of what a backfill is and what may happen to it.
"""
