"""What logs say about tokens: transfers, and the wrapping of coins.

A movement is found by the addresses of its parties, and a filter of a node finds only what is
indexed. So our rule is stricter than that of other tools:

token         Transfer(from, to, value)          3 topics, 32 bytes of data
nft           Transfer(from, to, id)             4 topics, no data
multi_token   TransferSingle(operator, from, to, id, value)        4 topics, 64 bytes
              TransferBatch(operator, from, to, ids, values)       4 topics, two equal lists
wrap          Deposit(to, value)       }         2 topics, 32 bytes, and only from the contract
unwrap        Withdrawal(from, value)  }         that the network lists for its coin

A topic is an address if its first 12 bytes are zero. Anything else is not a movement. Others see
some logs differently:

- ethereum-etl accepts parties that are not indexed (of old tokens, with 1 to 3 topics and the rest
  in the data), and does not tell an id from a value. It knows neither ERC-1155 nor wrapping.
- Blockscout takes 4 topics for ERC-721 even if there is data, accepts old transfers without
  indexed parties, and knows the events of ERC-404.
- Tokens that are the coin itself (on Celo, Polygon, Stable and zkSync) are tokens here as well.

Wrapping proves a call within the transaction: the contract paid `from` the coins that it took the
tokens for, and `to` paid the coins unless it called the contract itself, by the value of the
transaction. Some contracts announce a transfer from or to nobody as well; it is not counted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.transfers import TRANSFER
from gapless.chains.movements import NOBODY, Movement, MovementKind
from gapless.chains.wallet_rows import Place

SINGLE = keccak(b"TransferSingle(address,address,address,uint256,uint256)")
BATCH = keccak(b"TransferBatch(address,address,address,uint256[],uint256[])")
DEPOSIT = keccak(b"Deposit(address,uint256)")
WITHDRAWAL = keccak(b"Withdrawal(address,uint256)")
GRANTS = frozenset(
    {keccak(b"Approval(address,address,uint256)"), keccak(b"ApprovalForAll(address,address,bool)")}
)
PADDING = bytes(12)
"""What precedes an address in a topic."""
_WORD = 32
_ZERO = bytes(20)


class LogRow(NamedTuple):
    """A log of a transaction."""

    position: int
    contract: bytes
    topics: tuple[bytes, ...]
    data: bytes


class Called(NamedTuple):
    """Where logs come from: the place of their transaction, and what it called."""

    place: Place
    contract: bytes | None


def log_movements(
    logs: Sequence[LogRow], called: Called, wrapped: bytes | None
) -> Iterator[Movement]:
    """Yield the movements of some logs of one transaction, in the order of the logs."""
    announced = Counter(
        (log.topics[0], log.topics[1], log.data) for log in logs if _is_wrapping(log, wrapped)
    )
    for log in logs:
        if _is_wrapping(log, wrapped):
            yield from _wrapped(log, called)
        elif log.topics[0] in (SINGLE, BATCH):
            yield from _multi_tokens(log, called.place)
        elif log.topics[0] == TRANSFER:
            twin = _twin(log) if log.contract == wrapped else None
            if twin is not None and announced[twin]:
                announced[twin] -= 1
            else:
                yield from _transferred(log, called.place)


def grants(log: LogRow, signer: bytes) -> bool:
    """Whether a log says that the signer of the transaction granted somebody an allowance."""
    return log.topics[0] in GRANTS and log.topics[1:2] == (PADDING + signer,)


def _transferred(log: LogRow, place: Place) -> Iterator[Movement]:
    parties = [*map(_address, log.topics[1:3])]
    if len(parties) < 2 or None in parties:
        return
    sender, receiver = (each or b"" for each in parties)
    more = {"token": log.contract, "position": log.position}
    if len(log.topics) == 3 and len(log.data) == _WORD:
        amount = int.from_bytes(log.data, "big")
        yield place.movement(MovementKind.TOKEN, sender, receiver, amount, **more)
    elif len(log.topics) == 4 and not log.data:
        more["token_id"] = int.from_bytes(log.topics[3], "big")
        yield place.movement(MovementKind.NFT, sender, receiver, 1, **more)


def _multi_tokens(log: LogRow, place: Place) -> Iterator[Movement]:
    parties = [*map(_address, log.topics[2:4])]
    if len(parties) < 2 or None in parties:
        return
    sender, receiver = (each or b"" for each in parties)
    more = {"token": log.contract, "position": log.position}
    if log.topics[0] == SINGLE:
        if len(log.data) == 2 * _WORD:
            token_id, amount = _numbers(log.data)
            kind = MovementKind.MULTI_TOKEN
            yield place.movement(kind, sender, receiver, amount, token_id=token_id, **more)
        return
    ids, amounts = (_list(log.data, at) for at in (0, 1))
    if ids is None or amounts is None or len(ids) != len(amounts):
        return
    for at, (token_id, amount) in enumerate(zip(ids, amounts, strict=True)):
        more |= {"token_id": token_id, "batch_position": at}
        yield place.movement(MovementKind.MULTI_TOKEN, sender, receiver, amount, **more)


def _is_wrapping(log: LogRow, wrapped: bytes | None) -> bool:
    is_event = log.contract == wrapped and log.topics[0] in (DEPOSIT, WITHDRAWAL)
    return is_event and len(log.topics) == 2 and len(log.data) == _WORD


def _wrapped(log: LogRow, called: Called) -> Iterator[Movement]:
    owner, contract = _address(log.topics[1]), log.contract
    if owner is None:
        return
    place, amount, at = called.place, int.from_bytes(log.data, "big"), log.position
    if log.topics[0] == WITHDRAWAL:
        yield place.movement(
            MovementKind.UNWRAP, owner, NOBODY, amount, token=contract, position=at
        )
        yield place.movement(MovementKind.INTERNAL, contract, owner, amount, position=at)
        return
    yield place.movement(MovementKind.WRAP, NOBODY, owner, amount, token=contract, position=at)
    if called.contract != contract:
        yield place.movement(MovementKind.INTERNAL, owner, contract, amount, position=at)


def _twin(log: LogRow) -> tuple[bytes, bytes, bytes] | None:
    """Return the wrapping event that would announce the same as a transfer."""
    if len(log.topics) != 3:
        return None
    _, sender, receiver = log.topics
    if sender == PADDING + _ZERO:
        return DEPOSIT, receiver, log.data
    return (WITHDRAWAL, sender, log.data) if receiver == PADDING + _ZERO else None


def _address(topic: bytes) -> bytes | None:
    return topic[len(PADDING) :] if topic.startswith(PADDING) else None


def _numbers(data: bytes) -> list[int]:
    words = (data[at : at + _WORD] for at in range(0, len(data), _WORD))
    return [int.from_bytes(word, "big") for word in words]


def _list(data: bytes, argument: int) -> list[int] | None:
    """Return a list of numbers among encoded arguments; None if it does not fit into the data."""
    start = int.from_bytes(data[argument * _WORD : (argument + 1) * _WORD], "big")
    if len(data) < 2 * _WORD or start > len(data) - _WORD:
        return None
    content = start + _WORD
    length = int.from_bytes(data[start:content], "big")
    end = content + length * _WORD
    return None if end > len(data) else _numbers(data[content:end])
