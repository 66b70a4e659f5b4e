"""A chain with real signatures, whose blocks all have the same shape.

So nothing is unprovable just because the simulation left it out. Every block has a transaction of
each type, logs with every number of topics, transfers, withdrawals and an uncle. Each column
that Ethereum has is therefore filled somewhere, and empty somewhere if it may be empty.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from coincurve import PrivateKey
from msgspec import Raw

from gapless.chains.evm.checks.derived import created
from gapless.chains.evm.codec import encoding
from gapless.chains.evm.codec.bloom import bloom_of_logs
from gapless.chains.evm.codec.header import header_hash
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.codec.trie import ordered_root
from gapless.chains.evm.decode.structs import Block, Log, Receipt, Transaction, Withdrawal
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.chains.evm.transfers import TRANSFER
from gapless.chains.evm.wallet_tokens import BATCH
from gapless.schema.arrow import Tables
from tests.evm import with_transfers

CHAIN_ID = 1
FIRST = 22_000_000  # after every fork
TYPES = 5  # types of transactions, one of each in every block
_BASE_FEE, _TIP, _LIMIT, _GAS, _GAS_PER_BLOB = 1000, 7, 9000, 21_000, 1 << 17
_ACCESS = Raw(b'[{"address":"0x%b","storageKeys":["0x%b"]}]' % (b"ac" * 20, b"5e" * 32))
_AUTHORIZATION = Raw(
    b'[{"chainId":"0x1","address":"0x%b","nonce":"0x2","yParity":"0x1","r":"0x3","s":"0x4"}]'
    % (b"a4" * 20)
)


def _hexed(data: bytes) -> str:
    return f"0x{data.hex()}"


def _filler(*seed: object, size: int = 32) -> str:
    return _hexed(keccak(repr(seed).encode())[:size])


_KEYS = [PrivateKey(bytes([31 + each]) * 32) for each in range(TYPES)]
_SENDERS = [_hexed(keccak(key.public_key.format(compressed=False)[1:])[12:]) for key in _KEYS]


def _transaction(height: int, kind: int) -> Transaction:
    """The legacy one creates a contract; the others call one."""
    fees: dict[str, Any] = {"gas_price": hex(_BASE_FEE + _TIP)}
    if kind >= 2:
        fees |= {"max_fee_per_gas": hex(_LIMIT + kind), "max_priority_fee_per_gas": hex(_TIP)}
    if kind == 3:
        fees |= {"max_fee_per_blob_gas": "0x9", "blob_versioned_hashes": [_filler("blob", height)]}
    made = Transaction(
        block_hash="",
        block_number=hex(height),
        from_=_SENDERS[kind],
        gas=hex(_GAS + 100 + kind),
        hash="",
        input=_filler("input", height, kind),
        nonce=hex(height + kind),
        to=None if kind == 0 else _filler("to", height, kind, size=20),
        transaction_index=hex(kind),
        value=hex(10**18 + height + kind),
        type=hex(kind),
        chain_id=hex(CHAIN_ID) if kind else None,
        access_list=_ACCESS if kind else Raw(),
        authorization_list=_AUTHORIZATION if kind == 4 else Raw(),
        v=hex(encoding.PROTECTED + 2 * CHAIN_ID),  # what a legacy transaction signs
        **fees,
    )
    signed = _KEYS[kind].sign_recoverable(keccak(encoding.signing_payload(made)), hasher=None)
    made.r, made.s = (hex(int.from_bytes(part)) for part in (signed[:32], signed[32:64]))
    made.v = hex(signed[64] if kind else encoding.PROTECTED + 2 * CHAIN_ID + signed[64])
    made.hash = _hexed(keccak(encoding.transaction(made)))
    return made


def _receipt(it: Transaction, kind: int, logs: list[Log]) -> Receipt:
    found = Receipt(
        block_hash="",
        block_number=it.block_number,
        cumulative_gas_used=hex(sum(_GAS + each for each in range(kind + 1))),
        effective_gas_price=hex(_BASE_FEE + _TIP),
        gas_used=hex(_GAS + kind),
        logs=logs,
        status=hex(kind % 2),
        transaction_hash=it.hash,
        transaction_index=it.transaction_index,
        type=it.type,
        blob_gas_used=hex(_GAS_PER_BLOB) if kind == 3 else None,
        blob_gas_price="0x5" if kind == 3 else None,
    )
    found.contract_address = created(it, found)
    return found


def _logs(height: int) -> list[list[Log]]:
    """By transaction: two for the first and the last, none for the second.

    The fourth moves tokens as well: two of ERC-1155 with one log, and an ERC-20 token.
    """
    found = [
        [
            Log(
                address=_filler("contract", kind, at, size=20),
                topics=[_filler("topic", height, kind, at, each) for each in range(topics)],
                data=_filler("data", height, kind, at),
                log_index="",
            )
            for at, topics in enumerate(of_transaction)
        ]
        for kind, of_transaction in enumerate([(4, 3), (), (2,), (1,), (0, 4)])
    ]
    moved = [
        ([BATCH, _parties(height)[0], *_parties(height)], _words(64, 160, 2, 7, 8, 2, height, 9)),
        ([TRANSFER, *_parties(height)], _words(height)),
    ]
    for topics, data in moved:
        token = _filler("token", len(topics), size=20)
        shown = [_hexed(topic) for topic in topics]
        found[3].append(Log(address=token, topics=shown, data=data, log_index=""))
    for at, log in enumerate(log for each in found for log in each):
        log.log_index = hex(at)
    return found


def _parties(height: int) -> list[bytes]:
    return [bytes(12) + keccak(f"{name} {height}".encode())[:20] for name in ("from", "to")]


def _words(*numbers: int) -> str:
    return _hexed(b"".join(number.to_bytes(32, "big") for number in numbers))


def _block(height: int, parent: str) -> tuple[Block, list[Receipt]]:
    transactions = [_transaction(height, kind) for kind in range(TYPES)]
    logs = _logs(height)
    receipts = [_receipt(it, kind, logs[kind]) for kind, it in enumerate(transactions)]
    withdrawals = [
        Withdrawal(
            index=hex(3 * height + at),
            validator_index=hex(at + 5),
            address=_filler("validator", height, at, size=20),
            amount=hex(height + at),
        )
        for at in range(3)
    ]
    made = Block(
        base_fee_per_gas=hex(_BASE_FEE),
        blob_gas_used=hex(_GAS_PER_BLOB),
        difficulty="0x0",
        excess_blob_gas="0x20000",
        extra_data=_filler("extra", height, size=9),
        gas_limit=hex(30_000_000),
        gas_used=receipts[-1].cumulative_gas_used,
        hash="",
        logs_bloom=bloom_of_logs([log for each in logs for log in each]),
        miner=_filler("miner", height, size=20),
        mix_hash=_filler("mix", height),
        nonce=_filler("nonce", height, size=8),
        number=hex(height),
        parent_beacon_block_root=_filler("beacon", height),
        parent_hash=parent,
        receipts_root=_hexed(ordered_root([encoding.receipt(it) for it in receipts])),
        requests_hash=_filler("requests", height),
        sha3_uncles=_filler("uncles", height),
        size=hex(5000 + height),
        state_root=_filler("state", height),
        timestamp=hex(1_700_000_000 + 12 * (height - FIRST)),
        total_difficulty=hex(10**22 + height),
        transactions=transactions,
        transactions_root=_hexed(ordered_root([encoding.transaction(it) for it in transactions])),
        uncles=[_filler("uncle", height)],
        withdrawals=withdrawals,
        withdrawals_root=_hexed(ordered_root([encoding.withdrawal(it) for it in withdrawals])),
    )
    made.hash = _hexed(header_hash(made))
    for it, receipt in zip(transactions, receipts, strict=True):
        it.block_hash = receipt.block_hash = made.hash
    return made, receipts


@cache
def signed_chain(blocks: int) -> Tables:
    """Every table of this many blocks, starting at `FIRST`."""
    parent, found = _filler("parent"), []
    for height in range(FIRST, FIRST + blocks):
        found.append(_block(height, parent))
        parent = found[-1][0].hash
    blocks_, receipts = [block for block, _ in found], [each for _, each in found]
    return with_transfers(decode_blocks(blocks_, receipts, CHAIN_ID))
