"""Traces add what events do not prove, and nothing twice."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gapless.chains.evm.wallet_rules import EvmWalletRules
from gapless.chains.movements import InnerTransfer, Movement, MovementKind, TracedTransaction
from gapless.chains.wallet_rows import Place
from gapless.core.errors import TransientError
from gapless.wallets.tracing import traced_movements

ANN, BEN, WRAPPER, HASH = b"\x0a" * 20, b"\x0b" * 20, b"\x0c" * 20, b"\x11" * 32
PLACE = Place(1, 7, b"\x77" * 32, 70, transaction_index=0, transaction_hash=HASH, initiator=ANN)
ROWS = {
    "blocks": pa.table(
        {
            "chain_id": [1],
            "block_number": pa.array([7], pa.uint64()),
            "hash": [PLACE.block_hash],
            "block_timestamp": [70],
        }
    ),
    "transactions": pa.table(
        {
            "block_number": pa.array([7], pa.uint64()),
            "transaction_index": [0],
            "hash": [HASH],
            "from_address": [ANN],
        }
    ),
}
UNWRAPPED = PLACE.movement(MovementKind.INTERNAL, WRAPPER, ANN, 5, position=3)


def traced(*transfers: InnerTransfer, name: bytes = HASH) -> list[Movement]:
    traces = {7: [TracedTransaction(name, transfers)]}
    return traced_movements(EvmWalletRules(), ROWS, traces, [UNWRAPPED], [ANN])


def test_a_transfer_that_an_event_proves_is_not_counted_again() -> None:
    same, other = InnerTransfer(WRAPPER, ANN, 5), InnerTransfer(BEN, ANN, 5)
    foreign = InnerTransfer(WRAPPER, BEN, 5)
    assert traced(same) == []
    found = traced(foreign, other, same, same)
    assert [(it.sender, it.amount, it.batch_position) for it in found] == [
        (BEN, 5, 1),
        (WRAPPER, 5, 3),
    ]
    assert {(it.transaction_hash, it.initiator, it.position) for it in found} == {(HASH, ANN, -1)}


def test_traces_of_another_transaction_are_refused() -> None:
    with pytest.raises(TransientError, match="other transactions"):
        traced(name=b"\x22" * 32)
