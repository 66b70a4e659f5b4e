"""The wallet store: a contract beside `Sink`, in the sink's own database.

`store` is the contract. Its parts run in a transaction that they are given, so that a companion of
the sink can use them too: `changing` (scans, watched blocks, retractions), `members`, `entries`
with `balances`, `movements`, `scans`, `tokens`, and `lookup`, which finds rows of stored tables.
`coverage` is pure. `tables` creates the tables. Everything is written once, for SQLite and
PostgreSQL.
"""

from gapless.wallets.store.members import Settled
from gapless.wallets.store.store import WalletStore

__all__ = ["Settled", "WalletStore"]
