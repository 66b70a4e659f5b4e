"""What is refused, what is recorded as unproven, and what honest history looks like."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from gapless.chains.family import Wanted
from gapless.chains.level import Level
from gapless.chains.tron.check_names import PROVABLE, TronCheck
from gapless.chains.tron.family import TRON
from gapless.chains.tron.networks import TRON_CUSTOM, TRON_NETWORKS
from gapless.chains.tron.raw_block import RawTronBlock
from gapless.core.errors import BadAnswer, BadBlock
from gapless.core.proof import Proof
from tests.unit.tron.answers import (
    EVERYTHING,
    HEIGHT,
    TRANSFERS_COINS,
    Json,
    answers,
    block,
    info,
    read,
    transaction,
)

MAINNET = TRON_NETWORKS[0]
Answers = tuple[Json, list[Json]]


def proof(block_: Json, infos: list[Json] | None, **options: Any) -> Proof:
    reading = read(block_, infos, **options)
    assert not reading.refused
    (found,) = reading.blocks.values()
    assert found.hash.hex() == block_["blockID"]
    return found.proof


def refusal(block_: Json, infos: list[Json] | None, **options: Any) -> BadAnswer:
    reading = read(block_, infos, **options)
    (error,) = reading.refused.values()
    assert not reading.blocks
    assert not any(table.num_rows for table in reading.tables.values())
    return error


def test_an_honest_block_passes_every_check_except_that_nothing_proves_its_logs() -> None:
    found = proof(*answers())
    assert found == Proof(PROVABLE - {TronCheck.LINK}, frozenset({TronCheck.LOGS}))


def test_without_checks_nothing_is_claimed() -> None:
    assert proof(*answers(), level=Level.OFF) == Proof()


def test_headers_alone_claim_nothing_about_infos() -> None:
    block_, _ = answers()
    found = proof(block_, None, datasets=frozenset({"tron_blocks"}))
    needs = {TronCheck.COUNTS, TronCheck.PLACES, TronCheck.LINK}
    assert found == Proof(PROVABLE - needs)


def change(path: str, value: Any) -> Callable[[Answers], None]:
    """Set a value deep inside the answers, or remove it."""

    def made(it: Answers) -> None:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        place: Any = it
        for step in steps:
            place = place[step]
        if value is None:
            del place[last]
        else:
            place[last] = value

    return made


HEADER, FIRST, INFO = "0.block_header.raw_data", "0.transactions.0", "1.0"
REFUSED = {
    "another id": (change("0.blockID", HEIGHT.to_bytes(8, "big").hex() + "00" * 24), "header_hash"),
    "an id of another height": (change("0.blockID", "00" * 32), "height"),
    "another time": (change(f"{HEADER}.timestamp", 5), "places"),
    "no time": (change(f"{HEADER}.timestamp", None), "places"),
    "another version": (change(f"{HEADER}.version", 33), "header_hash"),
    "another root": (change(f"{HEADER}.txTrieRoot", "ab" * 32), "header_hash"),
    "an empty root": (change(f"{HEADER}.txTrieRoot", "00" * 32), "empty"),
    "another witness": (change(f"{HEADER}.witness_address", "41" + "09" * 20), "header_hash"),
    "no witness": (change(f"{HEADER}.witness_address", None), "witness"),
    "another parent": (change(f"{HEADER}.parentHash", "09" * 32), "header_hash"),
    "a witness id": (change(f"{HEADER}.witness_id", 1), "header_hash"),
    "an account state": (change(f"{HEADER}.accountStateRoot", "ab" * 32), "header_hash"),
    "no transactions": (change("0.transactions", []), "empty"),
    "a lost transaction": (change(FIRST, None), "counts"),
    "an altered transaction": (change(f"{FIRST}.raw_data_hex", "0a00"), "transaction_ids"),
    "another transaction id": (change(f"{FIRST}.txID", "ab" * 32), "counts"),
    "a lost info": (change(INFO, None), "counts"),
    "no infos": (lambda it: it[1].clear(), "counts"),
    "infos in another order": (lambda it: it[1].reverse(), "counts"),
    "an info of another transaction": (change(f"{INFO}.id", "ab" * 32), "counts"),
    "an info of another block": (change(f"{INFO}.blockNumber", 5), "places"),
    "an info of another time": (change(f"{INFO}.blockTimeStamp", 5), "places"),
}


@pytest.mark.parametrize("lie", REFUSED)
def test_a_lie_is_refused_and_names_its_check(lie: str) -> None:
    (block_, infos), (tell, check) = answers(), REFUSED[lie]
    tell((block_, infos))
    error = refusal(block_, infos)
    assert isinstance(error, BadBlock)
    assert (error.check, error.height) == (check, HEIGHT)
    assert f"block 12,000,000 of `tron-custom` fails the check `{check}`" in str(error)


@pytest.mark.parametrize("lie", REFUSED)
def test_only_the_shape_matters_without_checks(lie: str) -> None:
    (block_, infos), (tell, _) = answers(), REFUSED[lie]
    tell((block_, infos))
    assert not read(block_, infos, level=Level.OFF).refused


MALFORMED = {
    "not a block": (change("0.block_header", None), "not a TRON block"),
    "no hex": (change(f"{FIRST}.raw_data_hex", "xyz"), "`raw_data_hex` is not hex"),
    "a short id": (change(f"{FIRST}.txID", "ab"), "`txID` has 1 bytes, not 32"),
    "a short parent": (change(f"{HEADER}.parentHash", "ab"), "`parentHash` has 1 bytes"),
    "a negative time": (change(f"{HEADER}.timestamp", -1), "`timestamp` of a block is negative"),
    "another block": (change(f"{HEADER}.number", 5), "block 5 instead of 12000000"),
    "an info without an id": (change(f"{INFO}.id", None), "not a list of TRON transaction infos"),
    "a huge fee": (change(f"{INFO}.fee", 2**63), "`fee` is 9223372036854775808"),
    "a text as fee": (change(f"{INFO}.fee", "1"), r"Expected `int`, got `str` - at `\$\[0\].fee`"),
    "a short topic": (change("1.1.log.0.topics.0", "ab"), "not 32 bytes long"),
    "five topics": (change("1.1.log.0.topics", ["ab" * 32] * 5), "more than four topics"),
    "a short address": (change("1.1.log.0.address", "ab"), "has 1 bytes, not 20"),
}


@pytest.mark.parametrize("flaw", MALFORMED)
@pytest.mark.parametrize("level", [Level.OFF, Level.AUTO])
def test_a_malformed_answer_is_refused_at_every_level(flaw: str, level: Level) -> None:
    (block_, infos), (tell, message) = answers(), MALFORMED[flaw]
    tell((block_, infos))
    with pytest.raises(BadAnswer, match=message):
        raise refusal(block_, infos, level=level)


@pytest.mark.parametrize(("data", "infos"), [(b"{", b"[]"), (b"{}", b"["), (b"null", b"[]")])
def test_what_is_not_json_or_not_a_block_is_refused(data: bytes, infos: bytes) -> None:
    wanted = Wanted(TRON_CUSTOM, 1, frozenset(), EVERYTHING)
    reading = TRON.read([RawTronBlock(5, "node", data, infos)], wanted, (), whole=False)
    with pytest.raises(BadAnswer, match="this is not a TRON block"):
        raise reading.refused[5]


def test_raw_data_that_is_not_a_message_is_refused() -> None:
    sent = transaction(b"\x0a\xff")
    with pytest.raises(BadAnswer, match="cannot be decoded: the message ends within a number"):
        raise refusal(block([sent]), [info(sent)])


UNPROVEN = {
    "another signature": change(f"{FIRST}.signature", ["ab"]),
    "another result": change(f"{FIRST}.ret", [{"contractRet": "REVERT"}]),
    "no result": change(f"{FIRST}.ret", None),
    "a result without an encoding": change(f"{FIRST}.ret", [{"orderId": "ab"}]),
    "an unknown result": change(f"{FIRST}.ret", [{"contractRet": "SOMETHING_NEW"}]),
    "a result that is not a text": change(f"{FIRST}.ret", [{"contractRet": 1}]),
}


@pytest.mark.parametrize("lie", UNPROVEN)
def test_another_root_is_recorded_as_unproven_and_not_refused(lie: str) -> None:
    block_, infos = answers()
    UNPROVEN[lie]((block_, infos))
    found = proof(block_, infos)
    assert found.unproven == {TronCheck.TRANSACTIONS_ROOT, TronCheck.LOGS}
    assert TronCheck.TRANSACTION_IDS in found.proven


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value deep inside JSON with its path."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in items:
            yield from leaves(each, f"{path}.{key}")
    else:
        yield path[1:], value


def mutated(value: Any) -> Any:
    if isinstance(value, int):
        return value + 1
    if value in ("", "SUCCESS"):
        return "REVERT" if value else "ab"
    return f"{value[:-1]}{int(value[-1], 16) ^ 1:x}"


def test_every_changed_field_of_a_block_is_refused_or_leaves_a_proof_out() -> None:
    """Only the signature of the witness is covered by nothing."""
    honest, infos = answers()
    unnoticed = set()
    for path, value in leaves(honest):
        block_, _ = answers()
        change(f"0.{path}", mutated(value))((block_, infos))
        reading = read(block_, infos)
        proven = reading.refused or reading.blocks[HEIGHT].proof.proven
        if proven == PROVABLE - {TronCheck.LINK}:
            unnoticed.add(path)
    assert unnoticed == {"block_header.witness_signature"}


def test_a_changed_info_is_refused_or_only_a_second_endpoint_shows_it() -> None:
    block_, honest = answers()
    for path, value in leaves(honest):
        _, infos = answers()
        change(f"1.{path}", mutated(value))((block_, infos))
        reading = read(block_, infos)
        if reading.refused:
            continue
        assert TronCheck.LOGS in reading.blocks[HEIGHT].proof.unproven
        is_compared = not re.search("internal_transactions|assetIssueID", path)
        assert bool(read(block_, infos, other=answers()).refused) is is_compared


def test_a_lost_transaction_and_info_leave_the_root_unproven() -> None:
    """An honest node cannot be told from this one; only a second endpoint shows it."""
    block_, infos = answers()
    whole = answers()
    del block_["transactions"][3], infos[3]
    assert TronCheck.TRANSACTIONS_ROOT in proof(block_, infos).unproven
    error = refusal(block_, infos, other=whole)
    assert isinstance(error, BadBlock)
    assert error.check == TronCheck.AGREED


def test_two_endpoints_agree() -> None:
    found = proof(*answers(), other=answers(), level=Level.ROOTS)
    assert found == Proof((PROVABLE | {TronCheck.AGREED}) - {TronCheck.LINK})


def test_agreement_that_was_asked_for_in_vain_is_unproven() -> None:
    found = proof(*answers(), level=Level.ROOTS)
    assert found.unproven == {TronCheck.AGREED, TronCheck.LOGS}
    block_, infos = answers()
    found = proof(block_, infos, other=(block_, None), level=Level.ROOTS)
    assert found.unproven == {TronCheck.AGREED, TronCheck.LOGS}


def test_endpoints_may_differ_in_what_their_settings_decide() -> None:
    block_, infos = answers()
    del infos[1]["internal_transactions"]
    infos[1]["receipt"]["energy_penalty_total"] = 5
    assert TronCheck.AGREED in proof(*answers(), other=(block_, infos)).proven


@pytest.mark.parametrize(
    "lie",
    [
        change("1.1.log", []),
        change("1.1.log.0.data", "ab"),
        change("1.1.fee", 5),
        change("1.1.receipt.energy_fee", 5),
        change("1.1.contractResult", ["ab"]),
        change("0.transactions.1", None),
        change("0.blockID", "ab" * 32),
    ],
)
def test_endpoints_that_differ_are_refused(lie: Callable[[Answers], None]) -> None:
    other = answers()
    lie(other)
    error = refusal(*answers(), other=other)
    assert isinstance(error, BadBlock)
    assert error.check == TronCheck.AGREED


def test_a_known_hash_must_match() -> None:
    block_, infos = answers()
    proof(block_, infos, anchors={HEIGHT: bytes.fromhex(block_["blockID"])})
    with pytest.raises(BadBlock, match="but the known hash is 0xabab"):
        raise refusal(block_, infos, anchors={HEIGHT: b"\xab" * 32}, level=Level.OFF)


def early(number: int) -> tuple[Json, Json]:
    sent = transaction(TRANSFERS_COINS)
    return block([sent], number), {**info(sent), "blockNumber": number}


@pytest.mark.parametrize("number", [1, 342, 2_447_335, 11_015_603])
def test_early_transactions_without_infos_pass_on_public_networks(number: int) -> None:
    block_, known = early(number)
    for infos in ([], [known]):
        found = proof(block_, infos, network=MAINNET, height=number)
        assert found.unproven == {TronCheck.COUNTS, TronCheck.LOGS}
    wrong = refusal(block_, [{**known, "id": "ab" * 32}], network=MAINNET, height=number)
    assert isinstance(wrong, BadBlock)
    assert wrong.check == TronCheck.PLACES


@pytest.mark.parametrize(("number", "network"), [(11_015_604, MAINNET), (1, TRON_CUSTOM)])
def test_later_transactions_must_have_infos(number: int, network: Any) -> None:
    block_, known = early(number)
    assert TronCheck.COUNTS in proof(block_, [known], network=network, height=number).proven
    error = refusal(block_, [], network=network, height=number)
    assert isinstance(error, BadBlock)
    assert error.check == TronCheck.COUNTS


def test_a_genesis_block_has_no_witness_no_infos_and_no_number() -> None:
    sent = transaction(TRANSFERS_COINS)
    block_ = block([sent], 0, witness_address=b"any text".hex(), timestamp=0, parentHash="ab" * 32)
    for key in ("number", "timestamp"):
        del block_["block_header"]["raw_data"][key]
    found = proof(block_, [], height=0)
    assert found == Proof(PROVABLE - {TronCheck.LINK}, frozenset({TronCheck.LOGS}))
    found = proof(block_, [], network=MAINNET, height=0)
    assert found.unproven == {TronCheck.COUNTS, TronCheck.LOGS}


def test_a_block_without_transactions() -> None:
    block_ = block([])
    del block_["transactions"]
    assert proof(block_, []).unproven == {TronCheck.LOGS}
    assert block_["block_header"]["raw_data"]["txTrieRoot"] == "00" * 32


def test_levels_grow() -> None:
    levels = [TRON.level(each, EVERYTHING) for each in Level]
    assert all(one <= other for one, other in pairwise(levels))
    assert levels[0] == frozenset()
    assert TRON.level(Level.AUTO, EVERYTHING) == PROVABLE
    assert TronCheck.AGREED not in TRON.level(Level.AUTO, EVERYTHING)
    headers = TRON.level(Level.SENDERS, {"tron_blocks"})
    assert not headers & {TronCheck.COUNTS, TronCheck.PLACES}
