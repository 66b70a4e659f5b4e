"""A small, consistent block with everything that can be checked."""

from __future__ import annotations

from typing import Any

from coincurve import PrivateKey

from gapless.chains.evm.codec import encoding
from gapless.chains.evm.codec.bloom import bloom_of_logs
from gapless.chains.evm.codec.header import header_hash
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.codec.rlp import encode
from gapless.chains.evm.codec.trie import ordered_root
from gapless.chains.evm.decode.structs import Block, Log, Receipt, Transaction, Withdrawal

HEIGHT = 7
KEY = PrivateKey(b"\x01" * 32)
BOB = "0x" + "bb" * 20
BASE_FEE, TIP, LIMIT = 100, 5, 1000


def hexed(data: bytes) -> str:
    return f"0x{data.hex()}"


ALICE = hexed(keccak(KEY.public_key.format(compressed=False)[1:])[12:])


def log(index: int) -> Log:
    return Log(address=BOB, topics=[hexed(bytes([index]) * 32)], data="0x07", log_index=hex(index))


def transaction(index: int) -> Transaction:
    """A transfer with dynamic fees; the first one creates a contract."""
    made = Transaction(
        block_hash="",
        block_number=hex(HEIGHT),
        from_=ALICE,
        gas="0x5208",
        hash="",
        input="0x",
        nonce=hex(index),
        to=BOB if index else None,
        transaction_index=hex(index),
        value="0x1",
        type="0x2",
        chain_id="0x1",
        max_fee_per_gas=hex(LIMIT),
        max_priority_fee_per_gas=hex(TIP),
    )
    signature = KEY.sign_recoverable(keccak(encoding.signing_payload(made)), hasher=None)
    made.r, made.s = (hex(int.from_bytes(it)) for it in (signature[:32], signature[32:64]))
    made.v = made.y_parity = hex(signature[64])
    made.hash = hexed(keccak(encoding.transaction(made)))
    return made


def receipt(index: int, it: Transaction) -> Receipt:
    created = keccak(encode([bytes.fromhex(ALICE[2:]), b""]))[12:]
    logs = [log(2 * index), log(2 * index + 1)]
    return Receipt(
        block_hash="",
        block_number=hex(HEIGHT),
        contract_address=None if it.to else hexed(created),
        cumulative_gas_used=hex(21_000 * (index + 1)),
        effective_gas_price=hex(BASE_FEE + TIP),
        gas_used=hex(21_000),
        logs=logs,
        logs_bloom=bloom_of_logs(logs),
        status="0x1",
        transaction_hash=it.hash,
        transaction_index=hex(index),
        type="0x2",
    )


def block(count: int = 2, **fields: Any) -> tuple[Block, list[Receipt]]:
    """A block with some transactions, sealed over the header that results from `fields`."""
    transactions = [transaction(index) for index in range(count)]
    receipts = [receipt(index, it) for index, it in enumerate(transactions)]
    withdrawals = [Withdrawal(index="0x1", validator_index="0x2", address=ALICE, amount="0x3")]
    header: dict[str, Any] = {
        "base_fee_per_gas": hex(BASE_FEE),
        "difficulty": "0x0",
        "extra_data": "0x",
        "gas_limit": "0xffffff",
        "gas_used": hex(21_000 * count),
        "hash": "",
        "logs_bloom": bloom_of_logs([each for it in receipts for each in it.logs]),
        "miner": ALICE,
        "mix_hash": hexed(bytes(32)),
        "nonce": hexed(bytes(8)),
        "number": hex(HEIGHT),
        "parent_hash": hexed(b"\x01" * 32),
        "receipts_root": hexed(ordered_root([encoding.receipt(it) for it in receipts])),
        "sha3_uncles": hexed(keccak(encode([]))),
        "state_root": hexed(bytes(32)),
        "timestamp": "0x1",
        "transactions": transactions,
        "transactions_root": hexed(ordered_root([encoding.transaction(it) for it in transactions])),
        "uncles": [],
        "withdrawals": withdrawals,
        "withdrawals_root": hexed(ordered_root([encoding.withdrawal(it) for it in withdrawals])),
    }
    made = Block(**header | fields)
    made.hash = hexed(header_hash(made))
    for index in range(count):
        transactions[index].block_hash = receipts[index].block_hash = made.hash
    return made, receipts
