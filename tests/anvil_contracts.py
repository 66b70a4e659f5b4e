"""Contracts for anvil, as code that creates them: a token, and a contract that passes coins on."""

from __future__ import annotations

TRANSFER = "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
SUPPLY = 10**12
_WORD = 64  # hex digits

# The balance of an account is stored at its address.
_TOKEN = (
    "5f3560e01c80"  # the selector
    "6370a0823114601b57"  # balanceOf: jump to 1b
    "63a9059cbb14602657"  # transfer: jump to 26
    "5f5ffd"
    "5b600435545f5260205ff3"  # 1b: return the balance
    "5b6024353354808211607157819003"  # 26: revert if the sender has less
    "3355600435805482018155905f52"  # move it
    f"337f{TRANSFER}60205fa360015f5260205ff3"  # log it, return true
    "5b5f5ffd"  # 71: revert
)
# A call with no data, with all gas and all coins, to the address in the first word.
_FORWARDER = "5f5f5f5f345f355af100"


def token() -> str:
    """Creates a token whose creator has all of it."""
    created = f"64{SUPPLY:010x}8033555f52335f7f{TRANSFER}60205fa3"
    return _creating(created, _TOKEN)


def forwarder() -> str:
    return _creating("", _FORWARDER)


def transfer_of(receiver: str, amount: int) -> str:
    return f"0xa9059cbb{receiver[2:].lower():0>{_WORD}}{amount:0{_WORD}x}"


def balance_of(account: str) -> str:
    return f"0x70a08231{account[2:].lower():0>{_WORD}}"


def word_of(account: str) -> str:
    return f"0x{account[2:].lower():0>{_WORD}}"


def _creating(first: str, code: str) -> str:
    """Runs some code, then returns the code of the contract, which follows."""
    offset = len(first) // 2 + 9  # after the instructions of the next line
    return f"0x{first}60{len(code) // 2:02x}8060{offset:02x}5f395ff3{code}"
