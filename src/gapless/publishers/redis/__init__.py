"""Streams of Redis.

url         where a stream is; the password in it is a secret
keys        the names of the keys beside a stream
publisher   implements the contract; each step is one script
*.lua       the scripts, which check everything first: Lua does not roll back
"""
