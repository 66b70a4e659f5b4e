"""Check that every sender is the signer of its transaction.

No root covers `from`. Recovering a key from each signature takes about as long as all other checks
of a block together, so this check is only run on request.
"""

from __future__ import annotations

from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks.block_under_check import BlockUnderCheck
from gapless.chains.evm.codec.encoding import DEPOSIT, kind_of, recovery_id, signing_payload
from gapless.chains.evm.codec.fields import NotSigned
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.decode.structs import Transaction

_WORD = 32


def senders(it: BlockUnderCheck) -> bool:
    """Return whether all senders could be recovered; refuse the block if one differs."""
    if it.rooted_transactions is None:
        return False
    complete = True
    for position, transaction in enumerate(it.rooted_transactions):
        if kind_of(transaction.type) == DEPOSIT:
            continue  # its encoding contains the sender, so the transactions root covers it
        try:
            actual = recovered(transaction)
        except NotSigned:
            complete = False
            continue
        if actual != transaction.from_.lower():
            finding = f"transaction {position} is signed by {actual}, not by {transaction.from_}"
            it.refuse(Check.SENDERS, finding)
    return complete


def recovered(transaction: Transaction) -> str:
    """Return the address that signed a transaction."""
    from coincurve import PublicKey  # only this check needs it

    digest = keccak(signing_payload(transaction))
    r, s = (_word(part) for part in (transaction.r, transaction.s))
    try:
        key = PublicKey.from_signature_and_message(
            r + s + bytes([recovery_id(transaction)]), digest, hasher=None
        )
    except Exception as error:
        raise ValueError(f"its signature is invalid ({error})") from error
    return f"0x{keccak(key.format(compressed=False)[1:])[12:].hex()}"


def _word(field: str | None) -> bytes:
    number = 0 if field is None else int(field, 16)
    if number >= 1 << 256:
        raise ValueError("a part of its signature is longer than 32 bytes")
    return number.to_bytes(_WORD, "big")
