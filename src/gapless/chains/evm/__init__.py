"""Everything that is specific to Ethereum and its kind.

family      the interface that the rest of Gapless uses
networks    the known networks; `checkpoints` lists their blocks with known hashes
tables      what is stored
source      blocks as nodes return them; `logs_client` gets logs by range, `queries` are what a
            pool asks on its own, `probe` finds out what an endpoint supports
reading     turns answers into rows: `decode` parses them into columns, `checks` reject bad blocks
codec       Ethereum's encodings and hashes: RLP, tries, blooms, headers
wallet_*    the history of a wallet: `wallet_rules` selects rows, `wallet_coins` and `wallet_tokens`
            say what moved, `wallet_address` reads addresses, `wallet_node` asks nodes
layouts     columns of exported files: `etl` has those of ethereum-etl, `transfers` decodes tokens
"""
