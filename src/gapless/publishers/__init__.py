"""Publishing what a sink holds on a stream, each block once.

publisher  the contract of a stream: what it records about itself, and what it refuses
entries    what is written: the events of each transaction, then the block
plan       what a stream lacks, and what it must take back; pure
rows       reads blocks from a sink, each as of one moment
feeder     compares a sink with a stream, and publishes the difference
service    the publishers of a process
redis/     streams of Redis
"""
