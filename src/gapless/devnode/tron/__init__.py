"""Simulated TRON chains, and the HTTP API of their nodes."""
