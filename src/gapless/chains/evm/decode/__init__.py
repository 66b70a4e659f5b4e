"""Decode raw JSON-RPC answers of EVM chains to tables, and restore them from tables."""
