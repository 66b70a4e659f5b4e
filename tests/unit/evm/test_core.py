"""Whatever a node answers, the compiled core says the same about it as the reference."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from gapless.chains import Level
from gapless.chains.evm.checks.levels import needs_receipts
from gapless.chains.evm.family import EVM
from gapless.devnode import Parameters
from tests.evm import EVERY_TABLE
from tests.evm_answers import (
    SMALL,
    Answers,
    light,
    raw_block,
    simulated_answers,
    small_real_answer,
    wanted_of,
    without_receipts,
)
from tests.evm_core import CORE, assert_agree, with_core
from tests.examples import examples
from tests.unit.evm.answers import CHAIN, HEIGHT, rich_block
from tests.unit.evm.meanings import respelled, revalued
from tests.unit.evm.mutations import flipped, mutated

NAMES = tuple(table.name for table in EVERY_TABLE)
SUBSETS = [it for size in range(1, len(NAMES) + 1) for it in combinations(NAMES, size)]
CHAINS = (
    Parameters(blocks=24, txs=3, fewest=0, seed=7),
    Parameters(blocks=8, txs=60, empty_every=2, seed=3),
    Parameters(blocks=8, txs=1, empty_every=0, seed=5, chain_id=2**53 + 1),
    Parameters(blocks=16, txs=12, seed=11, economy=True),
)
RELAXED = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.skipif("REQUIRE_CORE" not in os.environ, reason="the core is optional")
def test_the_core_is_installed_where_it_can_be_built() -> None:
    """Otherwise CI would be green because nothing here was tested."""
    assert CORE.module is not None or shutil.which("cargo") is None, CORE.decoder.unused_core


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def made(cache: Path) -> Answers:
    return simulated_answers(CHAINS[0], range(2, 5), cache)


@with_core
class TestWholeAnswers:
    @pytest.mark.parametrize("level", Level)
    @pytest.mark.parametrize("parameters", CHAINS, ids=lambda it: f"seed-{it.seed}")
    def test_simulated_chains(self, parameters: Parameters, level: Level, cache: Path) -> None:
        raws, wanted = simulated_answers(parameters, range(parameters.blocks + 1), cache)
        checks = EVM.level(level, wanted.datasets)
        found = assert_agree(raws, replace(wanted, checks=checks), {0, 3})
        assert bool(found.refused) == (level is Level.SENDERS)  # nobody signed them

    @pytest.mark.parametrize("datasets", SUBSETS, ids="+".join)
    def test_any_datasets(self, made: Answers, datasets: tuple[str, ...]) -> None:
        raws, wanted = made
        given = raws if needs_receipts(datasets) else [*map(light, raws)]
        for level in (Level.OFF, Level.LINKS, Level.ROOTS):
            asked = wanted_of("custom", wanted.chain_id, level, datasets)
            assert not assert_agree(given, asked).refused

    def test_every_key(self) -> None:
        raw = raw_block(HEIGHT, *rich_block())
        for network in ("custom", "optimism", "arbitrum", "polygon", "gnosis", "avalanche"):
            for level in Level:
                assert_agree([raw], wanted_of(network, CHAIN, level))

    def test_no_blocks(self, made: Answers) -> None:
        assert_agree([], made[1])

    def test_blocks_without_receipts(self, made: Answers) -> None:
        raws, wanted = made
        without = [replace(raws[0], receipts=None), *raws[1:]]
        assert_agree(without, wanted)

    def test_logs_without_receipts(self, made: Answers) -> None:
        raws, wanted = made
        several = [*map(without_receipts, raws)]
        alone = [replace(it, other_logs=None) for it in several]
        for answers in (several, alone, [several[0], raws[1], alone[2]]):
            for level in (Level.OFF, Level.LINKS, Level.ROOTS):
                asked = wanted_of("custom", wanted.chain_id, level, NAMES)
                assert not assert_agree(answers, asked).refused

    def test_known_hashes(self, made: Answers) -> None:
        raws, wanted = made
        hashes = assert_agree(raws, wanted).blocks
        anchors = {2: hashes[2].hash, 3: bytes(32)}
        found = assert_agree(raws, replace(wanted, anchors=anchors))
        assert [*found.refused] == [3]

    def test_another_block_than_requested(self, made: Answers) -> None:
        raws, wanted = made
        swapped = [replace(raws[0], block=raws[1].block, receipts=raws[1].receipts), *raws[1:]]
        for level in Level:
            asked = wanted_of("custom", wanted.chain_id, level)
            assert 2 in assert_agree(swapped, asked).refused

    @pytest.mark.parametrize("text", [b"null", b"", b"[", b"{}", b'"0x"', b"\xff", b"[" * 9999])
    def test_no_answer_at_all(self, made: Answers, text: bytes) -> None:
        (first, *others), wanted = made
        for changed in (replace(first, block=Raw(text)), replace(first, receipts=Raw(text))):
            assert [*assert_agree([changed, *others], wanted).refused] == [2]


@with_core
class TestChangedAnswers:
    @given(data=st.data())
    @settings(RELAXED, max_examples=examples(60))
    def test_any_change(self, made: Answers, data: st.DataObject) -> None:
        raws, wanted = made
        assert_agree(data.draw(mutated(raws)), wanted)

    @pytest.mark.parametrize("level", [Level.OFF, Level.LINKS, Level.AUTO, Level.SENDERS])
    @given(data=st.data())
    @settings(RELAXED, max_examples=examples(15))
    def test_at_any_level(self, level: Level, made: Answers, data: st.DataObject) -> None:
        raws, wanted = made
        assert_agree(data.draw(mutated(raws)), wanted_of("custom", wanted.chain_id, level))

    @given(data=st.data())
    @settings(RELAXED, max_examples=examples(25))
    def test_of_light_blocks(self, made: Answers, data: st.DataObject) -> None:
        raws, wanted = made
        given = [*map(light, raws)]
        asked = wanted_of("custom", wanted.chain_id, datasets=("blocks", "withdrawals"))
        assert_agree(data.draw(mutated(given)), asked, data.draw(_samples(given)))

    @given(data=st.data())
    @settings(RELAXED, max_examples=examples(30))
    def test_of_logs_without_receipts(self, made: Answers, data: st.DataObject) -> None:
        raws, wanted = made
        given = [*map(without_receipts, raws)]
        assert_agree(data.draw(mutated(given)), wanted, data.draw(_samples(given)))

    @pytest.mark.parametrize("at", range(len(SMALL)))
    @given(data=st.data())
    @settings(RELAXED, max_examples=examples(12))
    def test_of_real_blocks(self, at: int, data: st.DataObject) -> None:
        raw, wanted = small_real_answer(at)
        assert_agree(data.draw(mutated([raw])), wanted)

    @given(data=st.data())
    @settings(RELAXED, max_examples=examples(25))
    def test_of_a_block_with_everything_in_it(self, data: st.DataObject) -> None:
        """Its hashes are invented, so it is read without checks."""
        raw = raw_block(HEIGHT, *rich_block())
        assert_agree(data.draw(mutated([raw])), wanted_of("custom", CHAIN, Level.OFF))

    @given(data=st.data())
    @settings(RELAXED, max_examples=examples(25))
    def test_of_the_notation(self, made: Answers, data: st.DataObject) -> None:
        raws, wanted = made
        assert_agree(data.draw(respelled(raws)), wanted, data.draw(_samples(raws)))

    @given(data=st.data())
    @settings(RELAXED, max_examples=examples(25))
    def test_of_a_value(self, made: Answers, data: st.DataObject) -> None:
        raws, wanted = made
        assert_agree(data.draw(revalued(raws))[1], wanted, data.draw(_samples(raws)))

    @given(data=st.data())
    @settings(RELAXED, max_examples=examples(50))
    def test_of_bytes(self, made: Answers, data: st.DataObject) -> None:
        raws, wanted = made
        assert_agree(data.draw(flipped(raws)), wanted)


def _samples(raws: object) -> st.SearchStrategy[set[int]]:
    assert isinstance(raws, list)
    return st.sets(st.sampled_from([it.height for it in raws]))
