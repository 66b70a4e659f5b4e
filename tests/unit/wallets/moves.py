"""Movements for tests: built by hand, or drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from gapless.chains.movements import NOBODY, NOWHERE, Movement, MovementKind
from gapless.wallets.categories import WalletEntry
from gapless.wallets.classify import Classifier
from gapless.wallets.past import Past


def address(start: str, end: str = "") -> bytes:
    """An address whose text begins and ends with these digits."""
    return bytes.fromhex(f"{start}{end.rjust(40 - len(start), '0')}")


ANN, BOB, CARL = address("aaaa", "1111"), address("bbbb", "2222"), address("cccc", "3333")
OWN = frozenset({ANN, BOB})
SHOP = address("50505050", "5050")
SHOP_LIKE = address("50506666", "5050")  # the first and last four digits are those of SHOP
BOB_LIKE = address("bbbb6666", "2222")
ROUTER, MALLORY = address("70717273"), address("ba1dba1d")
GOLD, IRON, FAKE, WETH = (address(it) for it in ("901d", "1409", "fa4e", "3e74"))


def move(
    kind: MovementKind, sender: bytes, receiver: bytes, amount: int = 1, **more: Any
) -> Movement:
    """A movement, in block 1 unless told otherwise, signed by its sender."""
    block = more.pop("block", 1)
    values: dict[str, Any] = {
        "chain_id": 1,
        "block_number": block,
        "block_hash": bytes([block % 256]) * 32,
        "block_timestamp": 1_700_000_000 + block,
        "transaction_index": 0,
        "transaction_hash": b"\xab" * 32,
        "initiator": sender,
    }
    return Movement(kind=kind, sender=sender, receiver=receiver, amount=amount, **(values | more))


def token(
    sender: bytes, receiver: bytes, amount: int = 1, token: bytes = GOLD, **more: Any
) -> Movement:
    return move(MovementKind.TOKEN, sender, receiver, amount, token=token, **more)


def hexed(address: bytes) -> str:
    return f"0x{address.hex()}"


def classified(
    movements: Sequence[Movement], past: Past | None = None, wallets: frozenset[bytes] = OWN
) -> list[WalletEntry]:
    """The entries of whole blocks; `past` is brought up to date."""
    classifier = Classifier(wallets, Past() if past is None else past, hexed)
    return classifier.add(movements) + classifier.finish()


def paired(
    movements: Sequence[Movement], entries: Sequence[WalletEntry]
) -> list[tuple[Movement, WalletEntry]]:
    by_key = {it.key: it for it in movements}
    return [(by_key[entry.movement], entry) for entry in entries]


parties = st.sampled_from([ANN, BOB, CARL, SHOP, SHOP_LIKE, BOB_LIKE, WETH, NOBODY])
amounts = st.one_of(st.integers(0, 3), st.integers(0, 2**256 - 1))
_IN_BLOCK = (MovementKind.WITHDRAWAL, MovementKind.REWARD)
_WITH_ID = (MovementKind.NFT, MovementKind.MULTI_TOKEN)
_OF_COINS = (
    *(MovementKind.NATIVE, MovementKind.FEE, MovementKind.INTERNAL, MovementKind.MINT),
    *_IN_BLOCK,
)


@st.composite
def histories(draw: st.DrawFn) -> list[Movement]:
    """Movements of a few blocks, in their order, each touching a wallet of `OWN`."""
    found: list[Movement] = []
    block = 0
    for _ in range(draw(st.integers(0, 8))):
        block += draw(st.integers(1, 3))
        signers = draw(st.lists(st.sampled_from([ANN, BOB, MALLORY]), min_size=1, max_size=3))
        for position in range(draw(st.integers(1, 6))):
            kind = draw(st.sampled_from(MovementKind))
            index = draw(st.integers(0, len(signers) - 1))
            sender, receiver = draw(parties), draw(parties)
            if not OWN & {sender, receiver}:
                continue
            tokens = [WETH] if kind in (MovementKind.WRAP, MovementKind.UNWRAP) else [GOLD, IRON]
            found.append(
                move(
                    kind,
                    sender,
                    receiver,
                    1 if kind is MovementKind.NFT else draw(amounts),
                    block=block,
                    transaction_index=NOWHERE if kind in _IN_BLOCK else index,
                    position=0 if kind is MovementKind.MULTI_TOKEN else position,
                    batch_position=position if kind is MovementKind.MULTI_TOKEN else NOWHERE,
                    token=NOBODY if kind in _OF_COINS else draw(st.sampled_from(tokens)),
                    token_id=draw(st.integers(0, 2)) if kind in _WITH_ID else None,
                    initiator=NOBODY if kind in _IN_BLOCK else signers[index],
                    is_approval=draw(st.booleans()),
                )
            )
    return found
