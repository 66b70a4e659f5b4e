"""The receipts of a block's transactions, encoded for the root and rendered as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from gapless.chains.evm.codec.bloom import log_bits
from gapless.chains.evm.codec.hexrlp import data, list_head, listed, number, packed, words
from gapless.chains.evm.codec.keccak import keccak
from gapless.devnode.evm.drafts import DraftLog
from gapless.devnode.evm.envelopes import BLOB_GAS_PRICE, GAS_PER_BLOB, Envelope

_REMEMBERED = 1 << 12


class Receipts(NamedTuple):
    """The receipts of a block's transactions, in their order."""

    envelopes: Sequence[Envelope]
    encoded: list[bytes]
    blooms: list[str]
    bits: int  # of all logs
    gas_used: int

    def rendered(self, block_hash: str, height: str, time: str) -> str:
        """As the node answers `eth_getBlockReceipts`."""
        texts, used, logs = [], 0, 0
        block = f'"blockHash":"{block_hash}","blockNumber":"{height}",'
        for at, (it, bloom) in enumerate(zip(self.envelopes, self.blooms, strict=True)):
            used += it.draft.gas_used
            to, new = (_text(each) for each in (it.draft.to, created(it)))
            place = (
                f'"blockNumber":"{height}","transactionHash":"{it.hash}",'
                f'"transactionIndex":"{at:#x}","blockHash":"{block_hash}",'
                f'"blockTimestamp":"{time}","logIndex":"'
            )
            listing = ",".join(
                [
                    f'{_log_json(log)},{place}{index:#x}","removed":false}}'
                    for index, log in enumerate(it.draft.logs, logs)
                ]
            )
            logs += len(it.draft.logs)
            blobs = ""
            if it.blobs:
                blobs = f',"blobGasUsed":"{it.blobs * GAS_PER_BLOB:#x}"'
                blobs += f',"blobGasPrice":"{BLOB_GAS_PRICE}"'
            texts.append(
                f'{{{block}"contractAddress":{new},"cumulativeGasUsed":"{used:#x}",'
                f'"effectiveGasPrice":"{it.price}","from":"{it.sender}",'
                f'"gasUsed":"{it.draft.gas_used:#x}","logs":[{listing}],"logsBloom":"0x{bloom}",'
                f'"to":{to},"transactionHash":"{it.hash}","transactionIndex":"{at:#x}",'
                f'"type":"{it.type}","status":"{it.draft.succeeds:#x}"{blobs}}}'
            )
        return f"[{','.join(texts)}]"


def receipts_of(envelopes: Sequence[Envelope]) -> Receipts:
    encoded, blooms, bits, used = [], [], 0, 0
    for it in envelopes:
        used += it.draft.gas_used
        bloom = _NO_BLOOM
        if it.draft.logs:
            own = log_bits(it.draft.logs)
            bits |= own
            bloom = f"{own:0512x}"
        logs = "".join([_log(log) for log in it.draft.logs])
        text = (
            f"{'01' if it.draft.succeeds else '80'}{number(hex(used))}b90100{bloom}"
            f"{list_head(len(logs) >> 1)}{logs}"
        )
        kind = "" if it.type == "0x0" else f"0{it.type[2:]}"
        encoded.append(packed(kind + listed(text)))
        blooms.append(bloom)
    return Receipts(envelopes, encoded, blooms, bits, used)


_NO_BLOOM = "0" * 512


def _log(it: DraftLog) -> str:
    return listed(f"94{it.address[2:]}{words(it.topics)}{data(it.data)}")


def _log_json(it: DraftLog) -> str:
    return f'{{"address":"{it.address}","topics":{_topics(it.topics)},"data":"{it.data}"'


@lru_cache(_REMEMBERED)
def _topics(topics: tuple[str, ...]) -> str:
    return '["' + '","'.join(topics) + '"]' if topics else "[]"


def _text(address: str | None) -> str:
    return "null" if address is None else f'"{address}"'


def created(it: Envelope) -> str | None:
    """The address of the new contract, if there is one, derived from its creator and nonce."""
    if it.draft.to is not None:
        return None
    creator = packed(listed(f"94{it.sender[2:]}{number(hex(it.nonce))}"))
    return f"0x{keccak(creator)[12:].hex()}"
