"""What a wallet holds on a network: by its movements, and by what a node reports.

Without a height, balances are those at the known end: the last block up to which no block is
missing. Movements of later blocks may be known, too, but they do not make a balance. Nodes often
remember accounts at recent blocks only, and what they do not remember is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from gapless.blocks.request import FetchOptions, build_request
from gapless.blocks.session import OpenChain, open_chain, undated
from gapless.blocks.targets import has_endpoint
from gapless.chains import Network
from gapless.config import Config
from gapless.core.heights import Moment
from gapless.wallets.finding import WalletReader
from gapless.wallets.held import known_end
from gapless.wallets.reconcile import reconcile
from gapless.wallets.records import Balance, HistoryFilter, Member, Page
from gapless.wallets.request import endpoints_by_network, rules_of

Token = tuple[int, bytes, int | None]
"""The chain, the token and its id."""


@dataclass(frozen=True)
class Holdings:
    """Balances, and what nodes report; a token that is not there was not asked about."""

    balances: list[Balance] = field(default_factory=list)
    on_chain: dict[Token, int | None] = field(default_factory=dict)
    known_to: dict[int, int] = field(default_factory=dict)
    """The last block up to which no block is missing, by chain; chains without one are left out."""


@dataclass(frozen=True)
class Comparison:
    """Which balances to compare with which nodes."""

    config: Config
    ledger_url: str
    rpcs: tuple[str, ...]
    at: int | Moment | None = None
    every_network: bool = True  # whether configured endpoints are asked where none was given

    def endpoints(self, networks: Sequence[Network]) -> Mapping[str, tuple[str, ...]]:
        return endpoints_by_network(self.config, networks, self.rpcs)


async def holdings(reader: WalletReader, asked: Comparison | None = None) -> Holdings:
    """The balances on all networks of a wallet, compared with the chain where a node is asked."""
    wallet, held = reader.wallet, Holdings()
    networks = {chain_id: wallet.network(chain_id) for chain_id in wallet.chains}
    given = {} if asked is None else asked.endpoints([*networks.values()])
    members = await reader.members()
    for chain_id, network in networks.items():
        member = members.get(chain_id)
        end = -1 if member is None else await known_end(reader.sink, rules_of(network), member)
        chain = ChainWallet(reader, chain_id, member, end)
        more = await _held(asked, chain, network, given.get(network.name, ()))
        held.balances.extend(more.balances)
        held.on_chain.update(more.on_chain)
        if end >= 0:
            held.known_to[chain_id] = end
    return held


async def _held(
    asked: Comparison | None, wallet: ChainWallet, network: Network, rpcs: tuple[str, ...]
) -> Holdings:
    """The balances on a network, compared with the chain if there is an endpoint."""
    if asked is None:
        return Holdings(await wallet.computed(None))
    config, at = asked.config, asked.at
    is_asked = rpcs or (asked.every_network and has_endpoint(config, network))
    if not is_asked or (at is None and wallet.known_to < 0):
        return Holdings(await wallet.computed(at))
    target = wallet.reader.wallet.sink
    heights = f"0:{at}" if isinstance(at, Moment) else "0:finalized"
    request, targets = build_request(config, network.name, heights, rpcs, target, FetchOptions())
    request = replace(request, network=network)
    async with open_chain(request, targets.config, asked.ledger_url) as chain:
        if isinstance(at, Moment):
            last = (await undated(request, targets.config, chain)).last
            assert isinstance(last, int)
            at = last
        return await wallet.compared(chain, wallet.known_to if at is None else at)


@dataclass(frozen=True)
class ChainWallet:
    """A wallet on one chain, and the last block up to which its movements are known."""

    reader: WalletReader
    chain_id: int
    member: Member | None
    known_to: int

    async def computed(self, at: int | Moment | None) -> list[Balance]:
        """The sums of its movements until a block or a time; by default, the known end."""
        if at is None and (self.known_to < 0 or await self._newest() <= self.known_to):
            stored = [it for it in await self.reader.balances() if it.chain_id == self.chain_id]
            return [msgspec.structs.replace(each, as_of=self.known_to) for each in stored]
        at = self.known_to if at is None else at
        key, address = self.reader.wallet.key, self.reader.wallet.address
        height, time = (at, None) if isinstance(at, int) else (None, at.ends - 1)
        found = await self.reader.store.balances_at(
            key.group, address, self.chain_id, height=height, time=time
        )
        return [
            msgspec.structs.replace(
                each, is_complete=height is not None and self._is_complete(each.token, height)
            )
            for each in found
        ]

    async def compared(self, chain: OpenChain, height: int) -> Holdings:
        """Its balances after a block, beside what the node reports for it."""
        wallet, rules = self.reader.wallet, rules_of(chain.network)
        node = rules.node(chain.pool, chain.network)
        group, address = wallet.key.group, wallet.address
        found = Holdings()
        compared = await reconcile(self.reader.store, node, group, address, self.chain_id, height)
        for each in compared:
            balance = Balance(
                group=group,
                wallet=address,
                chain_id=self.chain_id,
                token=each.token,
                token_id=each.token_id,
                amount=each.balance.computed,
                entries=0,
                is_complete=self._is_complete(each.token, height),
                as_of=height,
            )
            found.balances.append(balance)
            found.on_chain[self.chain_id, each.token, each.token_id] = each.balance.on_chain
        return found

    async def _newest(self) -> int:
        """The block of its newest movement; -1 if it has none."""
        only = HistoryFilter(chains=(self.chain_id,))
        newest = await self.reader.history(only, Page(limit=1))
        return max((it.movement.block_number for it in newest), default=-1)

    def _is_complete(self, token: bytes, height: int) -> bool:
        member = self.member
        return member is not None and member.is_complete_for(token) and height <= self.known_to
