"""The grammar of faults; the same seed draws the same faults."""

from __future__ import annotations

import pytest
from msgspec import Raw

from gapless.core.errors import UsageError
from gapless.devnode import Chain, Fault, Faults, Limits, Planned, parse_faults
from gapless.devnode.injector import Injector
from gapless.devnode.view import MethodCall, View


def test_chances_and_plans() -> None:
    faults = parse_faults("429=0.05, 500=1%,null@17,truncated@18*3, wrong_block=0.5", seed=3)
    assert faults.chances == {Fault.LIMITED: 0.05, Fault.BROKEN: 0.01, Fault.WRONG_BLOCK: 0.5}
    assert faults.plan == (Planned(Fault.NULL, 17), Planned(Fault.TRUNCATED, 18, 3))
    assert faults.seed == 3
    assert parse_faults("") == Faults()


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("nul=0.1", "there is no fault `nul`", "did you mean `null`?"),
        ("explode=0.1", "there is no fault `explode`", "known are 429, "),
        ("null", "`null` is not a fault", "write `null=0.01`"),
        ("null=two", "`null=two`: `two` is not a chance", "between 0 and 1"),
        ("null=1.5", "`null=1.5`: `1.5` is not a chance", "between 0 and 1"),
        ("null=nan", "`null=nan`: `nan` is not a chance", "between 0 and 1"),
        ("null=0.1,null=0.2", "`null` has two chances", "once"),
        ("null@x", "`null@x` is not a fault", "`null@17*3`"),
        ("429=0.6,500=0.6", "the faults of requests add up to 1.2", "at most 1"),
        ("null=0.6,empty=0.6", "the faults of calls add up to 1.2", "at most 1"),
    ],
)
def test_invalid_faults_are_explained(text: str, error: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_faults(text)
    assert str(raised.value).startswith(error)
    assert hint in (raised.value.hint or "")


def drawn(chain: Chain, seed: int, heights: list[int]) -> dict[int, Fault | None]:
    injector = Injector(parse_faults("null=0.2,truncated=0.2", seed))
    view = View(chain, chain.head, Limits())
    lots: dict[int, Fault | None] = {}
    for height in heights:
        call = MethodCall("eth_getBlockReceipts", Raw(f'["{height:#x}"]'.encode()))
        lot = injector.of_call(view, call)
        lots[height] = None if lot is None else lot.fault
    return lots


def test_chance_depends_on_the_seed_not_on_the_order(chain: Chain) -> None:
    heights = list(range(100))
    first = drawn(chain, 1, heights)
    assert drawn(chain, 1, heights[::-1]) == first
    assert drawn(chain, 2, heights) != first


def test_chance_keeps_its_share_and_lets_retries_through(chain: Chain) -> None:
    injector = Injector(parse_faults("null=0.2,429=0.9"))
    view = View(chain, chain.head, Limits())
    call = MethodCall("eth_getBlockReceipts", Raw(b'["0x5"]'))
    hits = sum(injector.of_call(view, call) is not None for _ in range(5000))
    assert 900 < hits < 1100


def test_a_fault_applies_only_where_it_makes_sense(chain: Chain) -> None:
    injector = Injector(parse_faults("wrong-chain=1"))
    view = View(chain, chain.head, Limits())
    assert injector.of_call(view, MethodCall("eth_blockNumber")) is None
    assert injector.of_call(view, MethodCall("eth_chainId")) is not None
