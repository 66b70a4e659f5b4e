"""TRON: the networks that java-tron nodes serve.

    /wallet/getblockbynum ─┐
                           ├─► RawTronBlock ──► parse ──► check ──► decode ──► tables
    …infobyblocknum ───────┘

A transaction's id covers the bytes of `raw_data_hex`, and nothing else in its JSON. So columns are
decoded from these bytes; the JSON of the same fields is never trusted.
"""
