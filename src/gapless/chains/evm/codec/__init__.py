"""What every EVM chain computes alike: hashes, encodings, tries and blooms.

Pure functions over bytes. They exist so that an answer of a node can be compared with what the
chain itself committed to, instead of being believed.
"""
