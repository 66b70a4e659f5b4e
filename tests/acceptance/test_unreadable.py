"""A backfill whose rows are damaged: workers continue without it, and every list shows it."""

from __future__ import annotations

import pytest

from tests.acceptance.commands import Commands

PARTS = {
    "spec": "UPDATE backfills SET spec = 'no JSON' WHERE id = 'bad'",
    "selector": "UPDATE backfills SET selector = '{\"kind\": \"filter\"}' WHERE id = 'bad'",
    "order": "UPDATE backfills SET run_order = 'sideways' WHERE id = 'bad'",
    "selection": "UPDATE selections SET data = x'00'"
    " WHERE hash = (SELECT selection FROM backfills WHERE id = 'bad')",
}


@pytest.mark.parametrize("part", PARTS)
async def test_a_damaged_backfill_is_shown_with_the_reason(
    sqlite_gapless: Commands, part: str
) -> None:
    gapless = sqlite_gapless
    gapless.start("picky", "--id", "bad", "--range", "0:99")
    gapless.start("picky", "--id", "poor", "--range", "100:199")
    await gapless.home.run(PARTS[part])
    assert "bad" in gapless("backfill", "show", "bad").stdout  # before a worker has seen it

    gapless("worker", "--poll", "50ms", "--until-idle")

    shown = gapless("backfill", "show", "bad").stdout
    assert "FAILED" in shown
    assert "cannot be read" in shown
    assert gapless.show("bad")["state"] == "FAILED"
    assert {each["id"] for each in gapless.json("backfill", "ls")} == {"bad", "poor"}
    assert gapless.show("poor")["chunks"]["complete"] == 9
    assert "poor:0" in gapless("dead", "ls").stdout


async def test_dead_letters_of_a_damaged_selection_are_listed(sqlite_gapless: Commands) -> None:
    gapless = sqlite_gapless
    gapless.start("picky", "--id", "bad", "--range", "0:9")
    gapless("worker", "--poll", "50ms", "--until-idle")
    await gapless.home.run(PARTS["selection"])

    assert "bad:0" in gapless("dead", "ls").stdout
    assert "bad" in gapless("backfill", "show", "bad", "--chunk", "0").stdout
    assert "cannot be read" in gapless.refused("backfill", "retry-failed", "bad")
