"""Everything that knows Ethereum.

family      what the rest of Gapless asks of these chains
networks    the known networks; `checkpoints` are blocks of theirs whose hash is known
tables      what is stored
source      blocks as nodes give them; `logs_client` gets logs by range, `queries` are what a pool
            asks by itself, `probe` finds out what an endpoint is good for
reading     answers become rows: `decode` parses and lays out columns, `checks` refuse what is false
codec       Ethereum's encodings and hashes: RLP, tries, blooms, headers
layouts     columns of exported files: `etl` has those of ethereum-etl, `transfers` decodes tokens
"""
