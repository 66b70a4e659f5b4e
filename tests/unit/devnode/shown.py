"""What the blocks and receipts of an economy show, read from their JSON and from nothing else."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from gapless.devnode import Chain
from gapless.devnode.evm.drafts import TRANSFER, TRANSFER_BATCH, TRANSFER_SINGLE
from gapless.devnode.evm.economy import DEPOSIT, WITHDRAWAL, WRAPPED
from gapless.devnode.evm.postings import COINS, PostedAsset

NOBODY = "0x" + "0" * 40


def number(text: str) -> int:
    return int(text, 16)


def account(topic: str) -> str:
    return f"0x{topic[-40:]}"


def transactions(chain: Chain, last: int) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
    """Heights, transactions and receipts up to a block."""
    for height in range(last + 1):
        block, receipts = json.loads(chain.block(height)), json.loads(chain.receipts(height))
        for transaction, receipt in zip(block["transactions"], receipts, strict=True):
            yield height, transaction, receipt


def shown(chain: Chain, last: int) -> dict[str, Counter[PostedAsset]]:
    """The sums of what blocks and receipts show up to a block, by account."""
    sums: dict[str, Counter[PostedAsset]] = defaultdict(Counter)

    def moved(asset: PostedAsset, sender: str, receiver: str, amount: int) -> None:
        sums[sender][asset] -= amount
        sums[receiver][asset] += amount

    for height in range(last + 1):
        for each in json.loads(chain.block(height))["withdrawals"]:
            sums[each["address"]][COINS] += number(each["amount"]) * 10**9
    for _, transaction, receipt in transactions(chain, last):
        sender = transaction["from"]
        fee = number(receipt["gasUsed"]) * number(receipt["effectiveGasPrice"])
        if "blobGasUsed" in receipt:
            fee += number(receipt["blobGasUsed"]) * number(receipt["blobGasPrice"])
        sums[sender][COINS] -= fee
        if receipt["status"] == "0x0":
            continue
        receiver = transaction["to"] or receipt["contractAddress"]
        moved(COINS, sender, receiver, number(transaction["value"]))
        for log in receipt["logs"]:
            token, topics, data = log["address"], log["topics"], log["data"]
            if token == WRAPPED and topics[0] in (DEPOSIT, WITHDRAWAL):
                owner, change = account(topics[1]), number(data)
                change = change if topics[0] == DEPOSIT else -change
                sums[owner][PostedAsset(WRAPPED)] += change
                if change < 0 or transaction["to"] != WRAPPED:  # a call moved the coins
                    moved(COINS, owner, WRAPPED, change)
            elif topics[:1] == [TRANSFER] and len(topics) == 3:
                moved(PostedAsset(token), account(topics[1]), account(topics[2]), number(data))
            elif topics[:1] == [TRANSFER] and len(topics) == 4:
                item = PostedAsset(token, number(topics[3]))
                moved(item, account(topics[1]), account(topics[2]), 1)
            elif topics[:1] == [TRANSFER_SINGLE]:
                item = PostedAsset(token, number(data[:66]))
                moved(item, account(topics[2]), account(topics[3]), number(data[66:]))
            elif topics[:1] == [TRANSFER_BATCH]:
                words = [number(data[at : at + 64]) for at in range(2, len(data), 64)]
                ids, amounts = (_listed(words, words[at] // 32) for at in (0, 1))
                for one, amount in zip(ids, amounts, strict=True):
                    parties = account(topics[2]), account(topics[3])
                    moved(PostedAsset(token, one), *parties, amount)
    sums.pop(NOBODY, None)
    return sums


def _listed(words: list[int], at: int) -> list[int]:
    return words[at + 1 : at + 1 + words[at]]
