"""The only durable truth: plans, leases, fences, events.

The protocol is written once (`claims`, `leases`, `control`, `retries`, `follows`, `folding`,
`groups`, `queues`, `wallets`, `workers`, `views`, `sync_views`, `check`, `wallet_check`), as
transactions over named statements; a dialect brings the statements and runs the transactions.
`Ledger` offers all of it as one object.
"""

from gapless.ledger.ledger import Ledger
from gapless.ledger.location import open_ledger, redacted

__all__ = ["Ledger", "open_ledger", "redacted"]
