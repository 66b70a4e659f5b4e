"""What tokens say about themselves, as rows of `tokens`.

Contracts may say anything. Text is stored without characters that are not printable, and shortened;
a number of decimals that no token can have is stored as unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gapless.chains.movements import TokenFacts
from gapless.sinks import CompanionTransaction
from gapless.wallets.store.bindings import Bindings, portions

LONGEST = 64
_MOST_DECIMALS = 255
_PUT = """
INSERT INTO {tokens} (chain_id, token, standard, symbol, name, decimals)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (chain_id, token) DO UPDATE SET standard = excluded.standard,
  symbol = excluded.symbol, name = excluded.name, decimals = excluded.decimals
"""
_LIST = """
SELECT token, standard, symbol, name, decimals FROM {{tokens}}
WHERE chain_id = $1 AND token IN ({tokens_})
"""


async def put(tx: CompanionTransaction, chain_id: int, facts: Mapping[bytes, TokenFacts]) -> None:
    """Store what tokens say about themselves, in place of what they said before."""
    await tx.execute_many(
        _PUT,
        [
            (
                chain_id,
                token,
                printable(it.standard) or "",
                printable(it.symbol),
                printable(it.name),
                it.decimals if 0 <= (it.decimals or 0) <= _MOST_DECIMALS else None,
            )
            for token, it in sorted(facts.items())
        ],
    )


async def listed(
    tx: CompanionTransaction, chain_id: int, tokens: Collection[bytes]
) -> dict[bytes, TokenFacts]:
    """Return what is known about some tokens."""
    found: dict[bytes, TokenFacts] = {}
    for some in portions(sorted(tokens)):
        bound = Bindings(chain_id)
        rows = await tx.execute(_LIST.format(tokens_=bound.one_of(some)), *bound.values)
        found |= {token: TokenFacts(*facts) for token, *facts in rows}
    return found


def printable(text: str | None) -> str | None:
    """Return text that every database and terminal accepts.

    >>> printable("US\\0DC\\n")
    'US\\ufffdDC\\ufffd'
    """
    if text is None:
        return None
    return "".join(it if it.isprintable() else "\ufffd" for it in text[:LONGEST])
