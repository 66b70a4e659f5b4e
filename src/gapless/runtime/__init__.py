"""The loops that bring a ledger's backfills to their end, and the engine around them."""
