"""The loops that run a ledger's backfills, and the engine around them."""
