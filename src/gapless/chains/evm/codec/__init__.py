"""The hashes, encodings, tries and blooms that all EVM chains share.

These are pure functions over bytes. With them, a node's answer can be compared with what the chain
itself committed to, instead of being trusted.
"""
