"""Rows of the ledger's tables, by the names of their columns.

Each class lists the columns that a statement reads or writes, and nothing else lists them: the SQL
of both dialects is generated from these classes (`gapless.ledger.fragments`), and
`LedgerTransaction.fetch_as` fills them by name.

Rows hold what the database holds: JSON and enumerations as text. Their methods make the values of
`gapless.ledger.records` from them.
"""
