"""Turn a source's answers into a sink's rows: fetch, decode, check, order, write.

Data flows one way and no stage calls back, so each stage can be tested, timed and replaced on its
own. The order of the stages guarantees that nothing is written before it is checked.
"""
