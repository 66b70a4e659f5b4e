"""The accounts of a simulated TRON chain, as its nodes know them: at the head only.

They are folded from the JSON of the blocks, and with nothing of `chains`, because a history that
was found by other means is compared with them. Every account begins with the same amount, coins
and assets alike, so that no transfer overdraws it; no block shows this amount.

Staked TRX leave `balance`, but still belong to the account. What a witness earns is its
`allowance`, which belongs to nobody until it is withdrawn. Delegating stakes changes no total, and
is left out.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from gapless.devnode.view import View

ENDOWMENT = 10**15
"""What every account has at the start, in SUN."""
REWARD = 16_000_000
"""What the witness of a block earns."""

_block = msgspec.json.Decoder(dict[str, Any]).decode
_infos = msgspec.json.Decoder(list[dict[str, Any]]).decode


class TronAccounts:
    """The accounts at the end of the newest block that somebody asked about."""

    def __init__(self) -> None:
        self._start()

    def at_head(self, view: View, address: str) -> dict[str, Any]:
        """An account in the form of `getaccount`; nothing if it was never used."""
        self._reach(view)
        if address not in self._used:
            return {}
        found: dict[str, Any] = {"address": address, "balance": ENDOWMENT + self._coins[address]}
        if staked := self._staked[address]:
            found["frozenV2"] = [{"amount": staked}, {"type": "ENERGY"}, {"type": "TRON_POWER"}]
        if earned := self._earned[address]:
            found["allowance"] = earned
        held = {asset: units for (owner, asset), units in self._assets.items() if owner == address}
        if held:
            units = [{"key": asset, "value": ENDOWMENT + it} for asset, it in held.items()]
            found["assetV2"] = units
        return found

    def _start(self) -> None:
        self._folded: list[int] = []  # the branch of each block
        self._used: set[str] = set()
        self._coins: Counter[str] = Counter()
        self._staked: Counter[str] = Counter()
        self._earned: Counter[str] = Counter()
        self._assets: Counter[tuple[str, str]] = Counter()

    def _reach(self, view: View) -> None:
        """Folds the blocks up to the head; after a reorganisation, all of them again."""
        known = len(self._folded)
        branches = [view.branch(height) for height in range(min(known, view.head + 1))]
        if self._folded != branches:
            self._start()
        for height in range(len(self._folded), view.head + 1):
            self._fold(_block(view.block(height)), _infos(view.receipts(height)))
            self._folded.append(view.branch(height))

    def _fold(self, block: dict[str, Any], infos: list[dict[str, Any]]) -> None:
        self._earned[block["block_header"]["raw_data"]["witness_address"]] += REWARD
        owners: dict[str, str] = {}  # by the id of their transaction
        for transaction in block.get("transactions", ()):
            (contract,) = transaction["raw_data"]["contract"]
            value = contract["parameter"]["value"]
            owners[transaction["txID"]] = value["owner_address"]
            self._used.add(value["owner_address"])
            results = transaction.get("ret") or [{}]  # the genesis has none
            if results[0].get("contractRet", "SUCCESS") == "SUCCESS":
                self._do(contract["type"], value)
        for info in infos:
            self._coins[owners[info["id"]]] -= info.get("fee", 0)
            for call in info.get("internal_transactions", ()):
                paid = sum(value.get("callValue", 0) for value in call["callValueInfo"])
                self._move(call["caller_address"], call["transferTo_address"], paid)

    def _do(self, kind: str, value: dict[str, Any]) -> None:
        owner = value["owner_address"]
        match kind:
            case "TransferContract":
                self._move(owner, value["to_address"], value["amount"])
            case "TransferAssetContract":
                asset = bytes.fromhex(value["asset_name"]).decode()
                self._assets[owner, asset] -= value["amount"]
                self._assets[value["to_address"], asset] += value["amount"]
                self._used.add(value["to_address"])
            case "TriggerSmartContract":
                self._move(owner, value["contract_address"], value.get("call_value", 0))
            case "FreezeBalanceV2Contract":
                self._coins[owner] -= value["frozen_balance"]
                self._staked[owner] += value["frozen_balance"]

    def _move(self, sender: str, receiver: str, amount: int) -> None:
        self._coins[sender] -= amount
        self._coins[receiver] += amount
        self._used |= {sender, receiver}
