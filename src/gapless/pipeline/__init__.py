"""From a source's answers to a sink's rows: fetch, decode, check, order, write.

Data goes one way through these stages and no stage calls back, so that each can be tested, timed
and replaced alone. The order of the stages is the promise: nothing is written that was not checked.
"""
