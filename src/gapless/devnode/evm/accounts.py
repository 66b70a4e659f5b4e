"""The accounts of a simulated chain at the end of each of its blocks.

They are derived by folding blocks in order, and only as far as somebody asks. Of every balance,
nonce, code and owner, each change is kept with its height. So an answer about any height takes one
search in a short list; and if the chain was reorganised, the changes of the replaced blocks are cut
off, and those of the new branch are folded.

    folded   0 ─ 1 ─ 2 ─ 3 ─ 4          asked about 5' on the branch 0 ─ 1 ─ 2 ─ 3'─ 4'─ 5'
             0 ─ 1 ─ 2                  cut
             0 ─ 1 ─ 2 ─ 3'─ 4'─ 5'     folded
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, NamedTuple, Protocol, TypeVar

from gapless.devnode.evm.contents import Author, Contents
from gapless.devnode.evm.economy import contracts
from gapless.devnode.evm.outcomes import created
from gapless.devnode.evm.postings import COINS, VISIBLE, Cause, PostedAsset, Posting, postings

_REBASED_EVERY = 20  # blocks
_INDEXES = (1000, 1030, 1010, 1060, 980)  # of the rebasing token, in turn
CODE = "0x60806040526004361060ff575b600080fdfe"
"""The code of every contract."""
_Value = TypeVar("_Value", int, str)


class Branches(Protocol):
    """A chain, or what a node sees of it."""

    def branch(self, height: int) -> int:
        """The number of the branch of a block, which with its height identifies its ancestors."""


class Explained(NamedTuple):
    """A balance by what caused it."""

    visible: int  # what blocks and receipts show
    hidden: int  # and what they do not

    @property
    def balance(self) -> int:
        return self.visible + self.hidden


class _Series(Generic[_Value]):
    """A value that changes with the height."""

    __slots__ = ("_heights", "_start", "_values")

    def __init__(self, start: _Value) -> None:
        self._start: _Value = start
        self._heights: list[int] = []
        self._values: list[_Value] = []

    def at(self, height: int) -> _Value:
        found = bisect_right(self._heights, height)
        return self._values[found - 1] if found else self._start

    def has_begun(self, height: int) -> bool:
        return bool(self._heights) and self._heights[0] <= height

    @property
    def last(self) -> _Value:
        return self._values[-1] if self._values else self._start

    def put(self, height: int, value: _Value) -> None:
        if self._heights and self._heights[-1] == height:
            self._values[-1] = value
        else:
            self._heights.append(height)
            self._values.append(value)

    def cut(self, height: int) -> None:
        """Forgets the changes at a height and above."""
        first = bisect_left(self._heights, height)
        del self._heights[first:], self._values[first:]


class _Account:
    """What an account has, and did."""

    def __init__(self, code: str) -> None:
        self.code = _Series(code)
        self.nonce = _Series(1 if code else 0)  # contracts begin with 1
        self.holdings: dict[PostedAsset, dict[Cause, _Series[int]]] = {}


class Accounts:
    """The accounts of a chain, on all of its branches."""

    def __init__(self, author: Author) -> None:
        self._author, self.world = author, author.world
        self._contracts = contracts(author.world)
        self._accounts: dict[str, _Account] = {}
        self._owners: dict[PostedAsset, _Series[str]] = {}
        self._rebasing: dict[str, dict[Cause, _Series[int]]] = {}  # of this token, by account
        self._folded: list[int] = []  # the branch of each block
        self._changed: list[list[_Series[int] | _Series[str]]] = []  # by each block

    def at(self, chain: Branches, height: int) -> AccountState:
        """The accounts at the end of a block."""
        return AccountState(self, chain, height)

    def contents(self, chain: Branches, height: int) -> Contents:
        """What a block contains."""
        return self._author.contents(self._author.chance(chain.branch(height), height), height)

    def account(self, chain: Branches, height: int, address: str) -> _Account:
        self._reach(chain, height)
        return self._accounts.get(address) or self._fresh(address)

    def owner(self, chain: Branches, height: int, item: PostedAsset) -> str:
        self._reach(chain, height)
        owner = self._owners.get(item)
        return "" if owner is None else owner.at(height)

    def _reach(self, chain: Branches, height: int) -> None:
        """Folds the blocks up to a height, after cutting off those of another branch."""
        known = last = min(height, len(self._folded) - 1)
        while known >= 0 and self._folded[known] != chain.branch(known):
            known -= 1
        if known < last:
            self._cut(known + 1)
        for at in range(len(self._folded), height + 1):
            branch = chain.branch(at)
            self._changed.append([])
            self._fold(self.contents(chain, at))
            self._folded.append(branch)

    def _cut(self, height: int) -> None:
        for series in (each for changed in self._changed[height:] for each in changed):
            series.cut(height)
        del self._changed[height:], self._folded[height:]

    def _fold(self, contents: Contents) -> None:
        height = contents.height
        for it in contents.envelopes:
            sender = self._entered(it.sender)
            self._put(sender.nonce, height, it.nonce + 1)
            if it.draft.succeeds and (contract := created(it)) is not None:
                self._put(self._entered(contract).code, height, CODE)
                self._put(self._entered(contract).nonce, height, 1)
        for posting in postings(contents, self.world):
            self._post(height, posting)
        if height and height % _REBASED_EVERY == 0:
            self._rebase(height)

    def _post(self, height: int, posting: Posting) -> None:
        account, asset, amount, cause = posting
        causes = self._entered(account).holdings.setdefault(asset, {})
        series = causes.setdefault(cause, _Series(0))
        self._put(series, height, series.last + amount)
        if asset.token in self.world.collections:
            owner = self._owners.setdefault(asset, _Series(""))
            self._put(owner, height, account if amount > 0 else "")
        if asset.token == self.world.rebasing:
            self._rebasing[account] = causes

    def _rebase(self, height: int) -> None:
        """All balances of the rebasing token follow its index, without an event."""
        number, asset = height // _REBASED_EVERY, PostedAsset(self.world.rebasing)
        before, after = (_INDEXES[at % len(_INDEXES)] for at in (number - 1, number))
        for account, causes in self._rebasing.items():
            balance = sum(series.last for series in causes.values())
            if change := balance * after // before - balance:
                self._post(height, Posting(account, asset, change, Cause.REBASE))

    def _entered(self, account: str) -> _Account:
        if (found := self._accounts.get(account)) is None:
            found = self._accounts[account] = self._fresh(account)
        return found

    def _fresh(self, account: str) -> _Account:
        return _Account(CODE if account in self._contracts else "")

    def _put(self, series: _Series[_Value], height: int, value: _Value) -> None:
        series.put(height, value)
        self._changed[-1].append(series)


class AccountState:
    """The accounts of a chain at the end of a block."""

    def __init__(self, accounts: Accounts, chain: Branches, height: int) -> None:
        self._accounts, self._chain, self._height = accounts, chain, height

    def balance(self, account: str, asset: PostedAsset = COINS) -> int:
        causes = self._account(account).holdings.get(asset, {})
        return sum(series.at(self._height) for series in causes.values())

    def nonce(self, account: str) -> int:
        return self._account(account).nonce.at(self._height)

    def code(self, account: str) -> str:
        """The code of a contract as hex; nothing for other accounts."""
        return self._account(account).code.at(self._height)

    def owner(self, item: PostedAsset) -> str:
        """Who has an item that exists once; nothing if it does not exist."""
        return self._accounts.owner(self._chain, self._height, item)

    def items(self, account: str, token: str) -> int:
        """How many items of a token an account has."""
        found = self.explained(account)
        return sum(each.balance for asset, each in found.items() if asset.token == token)

    def explained(
        self, account: str, visible: frozenset[Cause] = VISIBLE
    ) -> dict[PostedAsset, Explained]:
        """Everything that an account has or ever had, by whether its causes are visible."""
        found, height = {}, self._height
        for asset, causes in self._account(account).holdings.items():
            sums = {it: each.at(height) for it, each in causes.items() if each.has_begun(height)}
            shown = sum(amount for cause, amount in sums.items() if cause in visible)
            if sums:
                found[asset] = Explained(shown, sum(sums.values()) - shown)
        return found

    def _account(self, address: str) -> _Account:
        return self._accounts.account(self._chain, self._height, address)
