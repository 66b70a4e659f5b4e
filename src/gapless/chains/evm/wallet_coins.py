"""What transactions and withdrawals do to the coins of a network: value, fees, mints.

native       the value of a transaction that succeeded, to the contract that it created if any
fee          what the sender paid, also for a transaction that failed, and if it is zero: there is
             one for each signed transaction. Nobody pays for deposits and system transactions
mint         what a deposit brought from another chain, even if the deposit itself failed
withdrawal   from a validator. Not on Gnosis, where a contract keeps it until somebody claims it;
             the claim is an ordinary transfer of a token

The fee is gas used x price, plus on Ethereum the blob gas (the column holds something else on the
OP Stack), plus on the OP Stack the fee for L1 and the fee of the operator: constant + scalar x gas
/ 10^6 since Isthmus, constant + scalar x gas x 100 since Jovian. A receipt from Jovian on names a
`daFootprintGasScalar`. A fee that is paid with a token is an ordinary transfer of that token, so
the fee in coins is zero.

Before Byzantium, no receipt says whether its transaction succeeded. One that failed had used all of
its gas, and left no logs. So a transaction with gas left, or with logs, succeeded. Of the others,
one without call data is taken for a transfer that succeeded, and any other for a failure.

What cannot be seen without traces is missing: calls within transactions, rewards for blocks, the
tips that their producers keep, self-destructs, genesis, and retryable tickets on Arbitrum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.movements import NOBODY, Movement, MovementKind
from gapless.chains.wallet_rows import Place

Row = Mapping[str, Any]

_BLOBS = 3  # the type of transactions with blobs
_DEPOSIT = 0x7E  # of the OP Stack
_FUNDED = frozenset({0x64, 0x68})  # Arbitrum gives the sender what it transfers
_FREE = _FUNDED | {0x69, 0x6A, _DEPOSIT}
_GWEI = 10**9
_SELECTOR = 4  # bytes
_COLUMNS = (
    *("block_number", "transaction_index", "hash", "type", "from_address", "to_address"),
    *("value", "gas", "gas_price", "mint", "status", "gas_used", "effective_gas_price"),
    *("contract_address", "log_count", "blob_gas_used", "blob_gas_price", "l1_fee", "extra"),
)
_GRANTS = frozenset(
    bytes.fromhex(selector)
    for selector in (
        "095ea7b3",  # approve(address,uint256)
        "a22cb465",  # setApprovalForAll(address,bool)
        "39509351",  # increaseAllowance(address,uint256)
        "d73dd623",  # increaseApproval(address,uint256)
        "87517c45",  # approve(address,address,uint160,uint48), of Permit2
    )
)

_members = msgspec.json.Decoder(dict[str, Any]).decode


def transaction_rows(transactions: pa.Table) -> list[dict[str, Any]]:
    """Return what movements depend on; of the call data, only the beginning."""
    found = transactions.select(_COLUMNS)
    called = pc.binary_slice(transactions["input"], 0, _SELECTOR)
    rows: list[dict[str, Any]] = found.append_column("selector", called).to_pylist()
    return rows


def coin_movements(
    row: Row, place: Place, network: EvmNetwork, *, grants: bool
) -> Iterator[Movement]:
    """Yield what a transaction did; `grants` says whether its logs grant an allowance."""
    sender, value = row["from_address"], _number(row["value"])
    receiver = row["contract_address"] if row["to_address"] is None else row["to_address"]
    is_done = succeeded(row)
    mint = value if row["type"] in _FUNDED and is_done else _number(row["mint"])
    if mint:
        yield place.movement(MovementKind.MINT, NOBODY, sender, mint)
    if value and is_done and receiver is not None:
        yield place.movement(MovementKind.NATIVE, sender, receiver, value)
    if row["gas_used"] is not None and row["type"] not in _FREE and any(sender):
        is_approval = is_done and (grants or row["selector"] in _GRANTS)
        amount = 0 if network.pays_with_tokens else _fee(row)
        yield place.movement(MovementKind.FEE, sender, NOBODY, amount, is_approval=is_approval)


def withdrawal_movements(withdrawals: pa.Table, places: Mapping[int, Place]) -> Iterator[Movement]:
    """Yield what validators withdrew."""
    names = ("block_number", "withdrawal_position", "address", "amount")
    for height, position, address, amount in zip(
        *(withdrawals[name].to_pylist() for name in names), strict=True
    ):
        yield places[height].movement(
            MovementKind.WITHDRAWAL, NOBODY, address, amount * _GWEI, position=position
        )


def succeeded(row: Row) -> bool:
    """Whether a transaction succeeded, as far as that can be known; see above."""
    if row["status"] is not None:
        return bool(row["status"] == 1)
    if row["gas_used"] is None:  # there is no receipt
        return False
    is_plain = not row["selector"] and row["to_address"] is not None
    return bool(row["gas_used"] < row["gas"] or row["log_count"] or is_plain)


def _fee(row: Row) -> int:
    extra = _members(row["extra"]) if row["extra"] else {}
    if extra.get("feeCurrency"):  # Celo
        return 0
    price = row["gas_price"] if row["effective_gas_price"] is None else row["effective_gas_price"]
    fee: int = row["gas_used"] * _number(price) + _number(row["l1_fee"])
    if row["type"] == _BLOBS:
        fee += (row["blob_gas_used"] or 0) * _number(row["blob_gas_price"])
    return fee + _operator_fee(row["gas_used"], extra.get("receipt"))


def _operator_fee(gas_used: int, receipt: Any) -> int:
    """Return what the operator takes, by the fields of a receipt that have no column."""
    if not isinstance(receipt, dict):
        return 0
    scalar, constant = map(
        _quantity, map(receipt.get, ("operatorFeeScalar", "operatorFeeConstant"))
    )
    since_jovian = "daFootprintGasScalar" in receipt
    return constant + (scalar * gas_used * 100 if since_jovian else scalar * gas_used // 10**6)


def _quantity(text: Any) -> int:
    """Read what nobody has checked."""
    try:
        return int(text or "0", 0)
    except (TypeError, ValueError):
        return 0


def _number(value: bytes | None) -> int:
    return int.from_bytes(value or b"", "big")
