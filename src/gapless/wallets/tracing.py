"""Turns traces into movements: coins that calls within transactions sent to or from a wallet.

Some of these are known without traces, because an event of the network's wrapping contract proves
them. They stay as they are, and the same transfer in a trace is not counted again. So what traces
add has keys of its own: the number of the transfer in its transaction is its position in a batch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from gapless.chains.movements import (
    NOWHERE,
    Movement,
    MovementKind,
    TracedTransaction,
    WalletRules,
)
from gapless.chains.wallet_rows import block_places, of_parties, party
from gapless.core.errors import TransientError

Known = tuple[int, int, bytes, bytes, int]
"""A transfer: height, transaction, sender, receiver, amount."""


def traced_movements(
    rules: WalletRules,
    rows: Mapping[str, pa.Table],
    traces: Mapping[int, Sequence[TracedTransaction]],
    visible: Sequence[Movement],
    addresses: Collection[bytes],
) -> list[Movement]:
    """Return what the traces of blocks show beyond `visible`, which was found without them.

    `rows` are all transactions of these blocks, and the blocks. Raise `TransientError` if the
    traces are of other transactions.
    """
    proven = Counter(
        (it.block_number, it.transaction_index, it.sender, it.receiver, it.amount)
        for it in visible
        if it.kind is MovementKind.INTERNAL and it.position != NOWHERE
    )
    signed = _transactions(rows[rules.transactions], rules.signer)
    places = block_places(rows[rules.tables[0]], traces)
    found: list[Movement] = []
    for height, transactions in traces.items():
        expected = signed[height]
        if [it.hash for it in transactions] != [name for _, name, _ in expected]:
            raise TransientError(f"the traces of block {height:,} are of other transactions")
        for (index, name, signer), traced in zip(expected, transactions, strict=True):
            place = places[height]._replace(
                transaction_index=index, transaction_hash=name, initiator=party(signer)
            )
            for at, (sender, receiver, amount) in enumerate(traced.transfers):
                movement = place.movement(
                    MovementKind.INTERNAL, sender, receiver, amount, batch_position=at
                )
                key: Known = (height, index, movement.sender, movement.receiver, amount)
                if proven[key]:
                    proven[key] -= 1
                else:
                    found.append(movement)
    return [*of_parties(found, addresses)]


def _transactions(rows: pa.Table, signer: str) -> Mapping[int, list[tuple[int, bytes, bytes]]]:
    """Return index, hash and signer of transactions in their order, by height."""
    found: defaultdict[int, list[tuple[int, bytes, bytes]]] = defaultdict(list)
    names = ("block_number", "transaction_index", "hash", signer)
    columns = (rows[name].to_pylist() for name in names)
    for height, *transaction in sorted(zip(*columns, strict=True)):
        found[height].append(tuple(transaction))
    return found
