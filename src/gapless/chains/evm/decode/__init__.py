"""EVM chains through JSON-RPC: raw answers, their decoding to tables, and their checks."""
