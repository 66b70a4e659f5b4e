"""Simulated EVM chains, recorded ones, and the JSON-RPC of their nodes."""
