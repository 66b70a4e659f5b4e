"""Compares computed balances with those on the chain.

What a node reports beyond the sum of the known movements is unexplained: value that moved in
internal calls, rewards, or tokens whose balances change without events. It is shown, never hidden.
"""

from __future__ import annotations

import msgspec

from gapless.chains.movements import NOBODY, WalletNode
from gapless.wallets.balances import Reconciled
from gapless.wallets.store import WalletStore


class ReconciledToken(msgspec.Struct, frozen=True, kw_only=True):
    """What a wallet holds of a token after a block: by its movements, and by the chain."""

    token: bytes  # `NOBODY`: the coin of the network
    token_id: int | None = None
    balance: Reconciled


async def reconcile(
    store: WalletStore, node: WalletNode, group: str, wallet: bytes, chain_id: int, height: int
) -> list[ReconciledToken]:
    """Compares all balances of a wallet after a block, the coin first.

    The balance on the chain is unknown where no endpoint remembers it.
    """
    held = await store.balances_at(group, wallet, chain_id, height=height)
    computed = {(it.token, it.token_id): it.amount for it in held}
    account = await node.account(wallet, height)
    coin = Reconciled(computed.pop((NOBODY, None), 0), None if account is None else account.balance)
    found = [ReconciledToken(token=NOBODY, balance=coin)]
    answers = await node.token_balances([*computed], wallet, height)
    for ((token, token_id), amount), on_chain in zip(computed.items(), answers, strict=True):
        balance = Reconciled(amount, on_chain)
        found.append(ReconciledToken(token=token, token_id=token_id, balance=balance))
    return found
