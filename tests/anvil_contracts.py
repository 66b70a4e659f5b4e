"""Contracts for anvil: tokens of three kinds, one that wraps coins, and one that passes them on.

They do what their events say, and check only what the tests rely on.
"""

from __future__ import annotations

from gapless.chains.evm.codec.keccak import keccak


def topic(event: str) -> str:
    """The first topic of an event, as hex."""
    return keccak(event.encode()).hex()


TRANSFER = topic("Transfer(address,address,uint256)")
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


_OPERATIONS = {
    "SUB": 0x03,
    "ADD": 0x01,
    "EQ": 0x14,
    "ISZERO": 0x15,
    "SHR": 0x1C,
    "KECCAK256": 0x20,
    "CALLER": 0x33,
    "CALLVALUE": 0x34,
    "CALLDATALOAD": 0x35,
    "CALLDATACOPY": 0x37,
    "MSTORE": 0x52,
    "SLOAD": 0x54,
    "SSTORE": 0x55,
    "JUMPI": 0x57,
    "GAS": 0x5A,
    "PUSH0": 0x5F,
    "DUP1": 0x80,
    "SWAP1": 0x90,
    "LOG2": 0xA2,
    "LOG4": 0xA4,
    "CALL": 0xF1,
    "RETURN": 0xF3,
    "REVERT": 0xFD,
    "STOP": 0x00,
}
_FROM, _TO = "0x04 CALLDATALOAD", "0x24 CALLDATALOAD"  # the first two arguments
_RETURN = "PUSH0 MSTORE 0x20 PUSH0 RETURN"
_REVERT = "PUSH0 PUSH0 REVERT"


def assembled(code: str) -> str:
    """Code as hex: operations, numbers to push such as `0x20`, labels `it:` and pushes of `@it`."""
    places, written = dict[str, int](), ""
    for _ in range(2):  # the first time, labels after a place are not known
        written = ""
        for word in code.split():
            if word.endswith(":"):
                places[word[:-1]] = len(written) // 2
                written += "5b"
            elif word.startswith("@"):
                written += f"61{places.get(word[1:], 0):04x}"
            elif word.startswith("0x"):
                written += f"{0x5F + len(word[2:]) // 2:02x}{word[2:]}"
            else:
                written += f"{_OPERATIONS[word]:02x}"
    return written


def _choosing(**functions: str) -> str:
    """Runs the code of the function whose selector was called."""
    choices = (f"DUP1 0x{selector} EQ @{name} JUMPI" for name, selector in _SELECTORS.items())
    chosen = " ".join(it for it in choices if it.split("@")[1].split()[0] in functions)
    bodies = " ".join(f"{name}: {body}" for name, body in functions.items())
    return assembled(f"PUSH0 CALLDATALOAD 0xe0 SHR {chosen} {_REVERT} {bodies}")


_SELECTORS = {
    "owner": "6352211e",  # ownerOf(uint256)
    "send": "23b872dd",  # transferFrom(address,address,uint256)
    "balance_of_item": "00fdd58e",  # balanceOf(address,uint256)
    "send_some": "f242432a",  # safeTransferFrom(address,address,uint256,uint256,bytes)
    "send_both": "2eb2c2d6",  # safeBatchTransferFrom(address,address,uint256[],uint256[],bytes)
    "balance": "70a08231",  # balanceOf(address)
    "deposit": "d0e30db0",  # deposit()
    "withdraw": "2e1a7d4d",  # withdraw(uint256)
}


def collection() -> str:
    """Creates an ERC-721 token. Anyone may send its items, also from nobody, which creates them."""
    item = "0x44 CALLDATALOAD"
    owner = f"0x04 CALLDATALOAD SLOAD DUP1 @known JUMPI {_REVERT} known: {_RETURN}"
    send = (
        f"{item} SLOAD {_FROM} EQ @sent JUMPI {_REVERT} sent: {_TO} {item} SSTORE"
        f" {item} {_TO} {_FROM} 0x{TRANSFER} PUSH0 PUSH0 LOG4 STOP"
    )
    return _creating("", _choosing(owner=owner, send=send))


def bazaar() -> str:
    """Creates an ERC-1155 token. Anyone may send its items. A batch is of two of them."""

    def place(account: str, item: str) -> str:
        return f"{account} PUSH0 MSTORE {item} 0x20 MSTORE 0x40 PUSH0 KECCAK256"

    def moved(item: str, amount: str) -> str:
        taken = f"{place(_FROM, item)} DUP1 SLOAD {amount} SWAP1 SUB SWAP1 SSTORE"
        return f"{taken} {place(_TO, item)} DUP1 SLOAD {amount} ADD SWAP1 SSTORE"

    def logged(event: str, size: str) -> str:
        return f"{_TO} {_FROM} CALLER 0x{topic(event)} {size} PUSH0 LOG4 STOP"

    def word(at: int) -> str:
        return f"0x{at:04x} CALLDATALOAD"

    single = "TransferSingle(address,address,address,uint256,uint256)"
    batch = "TransferBatch(address,address,address,uint256[],uint256[])"
    send_some = f"{moved(word(0x44), word(0x64))} 0x40 0x44 PUSH0 CALLDATACOPY"
    send_both = (
        f"{moved(word(0xC4), word(0x124))} {moved(word(0xE4), word(0x144))}"
        " 0x40 PUSH0 MSTORE 0xa0 0x20 MSTORE 0xc0 0xa4 0x40 CALLDATACOPY"
    )
    return _creating(
        "",
        _choosing(
            balance_of_item=f"{place(_FROM, _TO)} SLOAD {_RETURN}",
            send_some=f"{send_some} {logged(single, '0x40')}",
            send_both=f"{send_both} {logged(batch, '0x0100')}",
        ),
    )


def wrapping() -> str:
    """The code of a contract that turns coins into tokens and back, to be put at an address."""
    deposit, withdrawal = topic("Deposit(address,uint256)"), topic("Withdrawal(address,uint256)")
    amount = "0x04 CALLDATALOAD"
    logged = "PUSH0 MSTORE CALLER 0x{} 0x20 PUSH0 LOG2 STOP"
    return "0x" + _choosing(
        balance=f"{_FROM} SLOAD {_RETURN}",
        deposit=f"CALLER SLOAD CALLVALUE ADD CALLER SSTORE CALLVALUE {logged.format(deposit)}",
        withdraw=(
            f"{amount} CALLER SLOAD SUB CALLER SSTORE"
            f" PUSH0 PUSH0 PUSH0 PUSH0 {amount} CALLER GAS CALL"
            f" @paid JUMPI {_REVERT} paid: {amount} {logged.format(withdrawal)}"
        ),
    )


def called(function: str, *arguments: str | int) -> str:
    """The data of a call of a function."""
    words = (it if isinstance(it, int) else int(it, 16) for it in arguments)
    return f"0x{_SELECTORS[function]}" + "".join(f"{it:0{_WORD}x}" for it in words)


def batch_of(sender: str, receiver: str, items: tuple[int, int], amounts: tuple[int, int]) -> str:
    """The data of a call that sends two items."""
    places = (0xA0, 0x100, 0x160)  # of both arrays, and of no data
    return called("send_both", sender, receiver, *places, 2, *items, 2, *amounts, 0)


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
    offset = len(first) // 2 + 10  # after the instructions of the next line
    return f"0x{first}61{len(code) // 2:04x}8060{offset:02x}5f395ff3{code}"
