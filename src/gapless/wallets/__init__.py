"""Wallets: what moved, what it means to the owner of some addresses, and what they hold."""
