"""The columns of the files that Etherscan and its relatives export for an address.

There are four files: transactions, internal transactions, transfers of ERC-20 tokens, and
transfers of NFTs. A movement is in at most one of them; withdrawals from validators and rewards are
in none. What movements do not say is left empty: the status and the method of a transaction, the
receiver of one without value, prices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from gapless.chains.movements import NOBODY, Movement, MovementKind
from gapless.wallets.categories import WalletEntry
from gapless.wallets.history import DisplayNames, decimal, time

Rows = Iterator[tuple[str, ...]]
Entries = Iterable[tuple[Movement, WalletEntry]]

_PLACE = ("Transaction Hash", "Blockno", "UnixTimestamp", "DateTime (UTC)")
TRANSACTIONS = (
    *(*_PLACE, "From", "To", "ContractAddress"),
    *("Value_IN({coin})", "Value_OUT({coin})", "CurrentValue", "TxnFee({coin})", "TxnFee(USD)"),
    *("Historical $Price/{price_coin}", "Status", "ErrCode", "Method"),
)
INTERNAL = (
    *(*_PLACE, "ParentTxFrom", "ParentTxTo", "ParentTx{coin}_Value"),
    *("From", "TxTo", "ContractAddress", "Value_IN({coin})", "Value_OUT({coin})", "CurrentValue"),
    *("Historical $Price/{price_coin}", "Status", "ErrCode", "Type"),
)
TOKENS = (
    *(*_PLACE, "From", "To", "TokenValue", "USDValueDayOfTx"),
    *("ContractAddress", "TokenName", "TokenSymbol"),
)
NFTS = (
    *(*_PLACE, "From", "To", "ContractAddress", "TokenName", "TokenSymbol"),
    *("Token ID", "Type", "Quantity"),
)
_TOKENS = frozenset(
    {MovementKind.TOKEN, MovementKind.WRAP, MovementKind.UNWRAP, MovementKind.ASSET}
)
_PLAIN = frozenset({MovementKind.NATIVE, MovementKind.MINT, MovementKind.FEE})
_NFTS = {MovementKind.NFT: "721", MovementKind.MULTI_TOKEN: "1155"}
_DONE = "0"  # the status of an internal transaction that did not fail


def transactions(entries: Entries, names: DisplayNames) -> Rows:
    """One row per transaction that the wallet sent, or that sent it coins."""
    found = (it for it in entries if it[0].kind in _PLAIN)
    for _, group in groupby(found, lambda it: (it[0].block_number, it[0].transaction_index)):
        together = [*group]
        movement, entry = max(together, key=lambda it: it[0].kind is MovementKind.NATIVE)
        parties = (_party(movement.sender, entry, names), names.address(movement.receiver), "")
        fees = [it for it in together if it[0].kind is MovementKind.FEE]
        values = [it for it in together if it[0].kind is not MovementKind.FEE]
        amounts = (_total(values, 1, names), _total(values, -1, names), "", _total(fees, -1, names))
        yield (*_place(movement, names), *parties, *amounts, "", "", "", "", "")


def internal(entries: Entries, names: DisplayNames) -> Rows:
    """One row per value of a call within a transaction."""
    for movement, entry in entries:
        if movement.kind is MovementKind.INTERNAL:
            parties = (_party(it, entry, names) for it in (movement.sender, movement.receiver))
            received = names.amount(movement, movement.amount * (entry.direction > 0))
            sent = names.amount(movement, movement.amount * (entry.direction < 0))
            parent = (names.address(movement.initiator), "", "")
            values = (received, sent, "", "", _DONE, "", "call")
            yield (*_place(movement, names), *parent, *parties, "", *values)


def tokens(entries: Entries, names: DisplayNames) -> Rows:
    """One row per transfer of a fungible token, wrapping and unwrapping included."""
    for movement, entry in entries:
        if movement.kind in _TOKENS:
            parties = (_party(it, entry, names) for it in (movement.sender, movement.receiver))
            token = (names.token(movement), names.token_name(movement), names.symbol(movement))
            yield (*_place(movement, names), *parties, names.amount(movement), "", *token)


def nfts(entries: Entries, names: DisplayNames) -> Rows:
    """One row per transfer of a token with an id."""
    for movement, entry in entries:
        if number := _NFTS.get(movement.kind):
            parties = (_party(it, entry, names) for it in (movement.sender, movement.receiver))
            token = (names.token(movement), names.token_name(movement), names.symbol(movement))
            quantity = (str(movement.token_id), f"ERC-{number}", str(movement.amount))
            yield (*_place(movement, names), *parties, *token, *quantity)


def _place(movement: Movement, names: DisplayNames) -> tuple[str, ...]:
    when = f"{time(movement):%Y-%m-%d %H:%M:%S}"
    number, seconds = str(movement.block_number), str(movement.block_timestamp)
    return names.transaction(movement), number, seconds, when


def _total(entries: Entries, direction: int, names: DisplayNames) -> str:
    """How many coins went in one direction."""
    total = sum(movement.amount for movement, entry in entries if entry.direction == direction)
    return decimal(total, names.coin.decimals)


def _party(address: bytes, entry: WalletEntry, names: DisplayNames) -> str:
    """An address, which is the zero address for nobody."""
    return names.format_address(bytes(len(entry.wallet)) if address == NOBODY else address)
