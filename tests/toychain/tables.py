"""The tables of toy chains."""

from gapless.schema import Index, Kind, Links, Table, must

_CHAIN = must(Kind.INT, chain_id="the chain's id", block_number="height")

BLOCKS = Table(
    name="toy_blocks",
    doc="One row per block.",
    key=("chain_id", "block_number"),
    columns=_CHAIN
    + must(Kind.HASH, seal="of the block", previous="of the block before", moves_seal="of moves")
    + must(Kind.INT, block_timestamp="seconds since 1970", move_count="rows in `toy_moves`"),
    indexes=(Index("toy_blocks_seal", ("seal",)),),
    links=Links(hash="seal", parent="previous"),
    counts={"toy_moves": "move_count"},
)
MOVES = Table(
    name="toy_moves",
    doc="One row per move of coins.",
    key=("chain_id", "block_number", "move_index"),
    parents=(BLOCKS,),
    is_large=True,
    columns=_CHAIN
    + must(Kind.INT, move_index="position in the block", block_timestamp="of the block")
    + must(Kind.BYTES, giver="a name", taker="a name")
    + must(Kind.INT, coins="how many"),
    indexes=(Index("toy_moves_giver", ("giver", "block_number")),),
)
