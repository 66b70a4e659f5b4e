"""What the contracts of an economy answer when they are called.

Anybody can write a contract: there is one with a symbol of 32 bytes instead of a text, one that
reverts whatever it is asked, and two whose symbols should harm the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gapless.devnode.evm.accounts import AccountState
from gapless.devnode.evm.drafts import World
from gapless.devnode.evm.economy import WRAPPED
from gapless.devnode.evm.postings import PostedAsset

BALANCE_OF, BALANCE_OF_ITEM, OWNER_OF = "70a08231", "00fdd58e", "6352211e"
SYMBOL, NAME, DECIMALS, SUPPORTS = "95d89b41", "06fdde03", "313ce567", "01ffc9a7"
ERC_165, ERC_721, ERC_1155 = "01ffc9a7", "80ac58cd", "d9b67a26"
HOSTILE = "\x1b[2J\x00\r\n\u202e<script>alert(1)</script>'; DROP TABLE tokens; --" * 200
"""A symbol of more than 10 KB."""
SHORT, REVERTING, LONG, BROKEN = range(4)
"""Of a chain's tokens, those that answer in an unusual way."""
_SELECTOR, _WORD = 8, 64  # hex digits
_DECIMALS = (18, 6, 8, 0)

Method = Callable[[AccountState, list[str]], str | None]
Contract = Mapping[str, Method]
"""Methods by selector. Arguments and results are words as hex; None: it reverts."""


def contracts_of(world: World) -> dict[str, Contract]:
    """All tokens of a chain, by address."""
    plain = {
        token: _fungible(token, f"TKN{at}", f"Token {at}", _DECIMALS[at % len(_DECIMALS)])
        for at, token in enumerate(world.tokens)
    }
    short, reverting, long, broken = (world.tokens[at] for at in (SHORT, REVERTING, LONG, BROKEN))
    plain[short] |= {SYMBOL: _fact(_padded(b"MKR")), NAME: _fact(_padded(b"Maker"))}
    plain[reverting] = {}
    plain[long] |= {SYMBOL: _fact(_text(HOSTILE)), DECIMALS: _fact("f" * _WORD)}
    plain[broken] |= {SYMBOL: _fact(f"{'f' * _WORD}{1 << 255:064x}"), NAME: _fact("")}
    return {
        **plain,
        WRAPPED: _fungible(WRAPPED, "WETH", "Wrapped Ether", 18),
        world.rebasing: _fungible(world.rebasing, "RBS", "Rebasing", 18),
        world.taxed: _fungible(world.taxed, "TAX", "Taxed", 9),
        world.unindexed: _fungible(world.unindexed, "UIX", "Unindexed", 18),
        world.forged: _fungible(world.forged, "USD\u0421", "USD Coin", 6),  # a Cyrillic letter
        **{each: _collection(each) for each in world.collections},
        **{each: _bazaar(each) for each in world.bazaars},
    }


def called(contract: Contract, state: AccountState, data: str) -> str | None:
    """The result of a call with these bytes in hex; None: it reverts."""
    method = contract.get(data[:_SELECTOR])
    words = [data[at : at + _WORD] for at in range(_SELECTOR, len(data), _WORD)]
    try:
        return None if method is None else method(state, words)
    except (IndexError, ValueError):
        return None


def _fungible(token: str, symbol: str, name: str, decimals: int) -> dict[str, Method]:
    return {
        SYMBOL: _fact(_text(symbol)),
        NAME: _fact(_text(name)),
        DECIMALS: _fact(_word(decimals)),
        BALANCE_OF: lambda state, words: _word(
            state.balance(_account(words[0]), PostedAsset(token))
        ),
    }


def _collection(token: str) -> Contract:
    def owner(state: AccountState, words: list[str]) -> str | None:
        found = state.owner(PostedAsset(token, int(words[0], 16)))
        return _word(int(found, 16)) if found else None

    return {
        SYMBOL: _fact(_text("NFT")),
        NAME: _fact(_text("Collection")),
        SUPPORTS: _supports(ERC_165, ERC_721),
        OWNER_OF: owner,
        BALANCE_OF: lambda state, words: _word(state.items(_account(words[0]), token)),
    }


def _bazaar(token: str) -> Contract:
    def balance(state: AccountState, words: list[str]) -> str:
        holder, item = words
        return _word(state.balance(_account(holder), PostedAsset(token, int(item, 16))))

    return {SUPPORTS: _supports(ERC_165, ERC_1155), BALANCE_OF_ITEM: balance}


def _supports(*interfaces: str) -> Method:
    return lambda _, words: _word(words[0][:_SELECTOR] in interfaces)


def _fact(result: str) -> Method:
    return lambda _, __: result


def _account(word: str) -> str:
    return f"0x{word[-40:].lower()}"


def _word(number: int) -> str:
    return f"{number:064x}"


def _text(text: str) -> str:
    encoded = text.encode()
    padded = encoded.hex().ljust(-(-len(encoded) // 32) * _WORD, "0")
    return f"{32:064x}{len(encoded):064x}{padded}"


def _padded(text: bytes) -> str:
    return text.hex().ljust(_WORD, "0")
