"""Decode raw JSON-RPC answers of EVM nodes to tables, and restore them from tables."""
