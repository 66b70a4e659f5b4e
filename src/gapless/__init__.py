"""Gapless, a durable backfill engine for blockchains."""
