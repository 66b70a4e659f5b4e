"""`gapless dead ls | retry | purge` and `gapless ledger check | migrate | compact`."""

from __future__ import annotations

from tests.acceptance.commands import Commands


def fail_some(gapless: Commands) -> None:
    """Creates dead letters: chunks 0 and 10 of `p`, chunk 0 of `q`."""
    for name, blocks in (("p", "0:149"), ("q", "0:19")):
        gapless("backfill", "start", "--job", "jobs:picky", "--range", blocks, "--id", name, code=1)


def test_dead_letters_are_listed_retried_and_purged(sqlite_gapless: Commands) -> None:
    gapless = sqlite_gapless
    fail_some(gapless)

    listed = gapless("dead", "ls")
    head, *rows = listed.stdout.splitlines()
    assert head.split() == ["chunk", "partitions", "tries", "since", "error"]
    assert [row.split()[:3] for row in rows] == [
        ["p:0", "3", "1"],
        ["p:10", "103", "1"],
        ["q:0", "3", "1"],
    ]
    assert rows[0].endswith(r"PermanentError: block 3 is \x1b[31mbroken\x1b[0m")
    (letter,) = gapless.json("dead", "ls", "q")
    assert letter["chunk_id"] == "q:0"
    assert (letter["partitions"], letter["missing"], letter["attempts"]) == (["3"], 1, 1)
    assert letter["error_class"] == "PermanentError"
    short = gapless("dead", "ls", "--limit", "2", "--json")
    assert len(short.json) == 2
    assert '"hint":"there are more than these 2' in short.stderr

    preview = gapless.json("dead", "retry", "--all", "--dry-run")
    assert [each["chunk_id"] for each in preview] == ["p:0", "p:10", "q:0"]
    (child,) = gapless.json("dead", "retry", "p:10")
    assert (child["parent_backfill_id"], child["partitions"]) == ("p", 1)
    assert [each["chunk_id"] for each in gapless.json("dead", "ls")] == ["p:0", "q:0"]

    assert gapless("dead", "purge", "p:0", "--dry-run").stdout.splitlines()[1].startswith("p:0 ")
    assert gapless("dead", "purge", "p:0").stdout == "1 dead letter purged\n"
    assert gapless.show("p")["chunks"]["abandoned"] == 2  # its partitions stay missing
    assert gapless.json("dead", "purge", "--all") == {"purged": 1}
    for nothing in ("ls", "retry --all"):
        empty = gapless("dead", *nothing.split())
        assert (empty.stdout, empty.stderr) == ("", "there are no dead letters\n")
    assert gapless.json("dead", "retry", "--all") == []


async def test_the_ledger_is_checked_and_compacted(gapless: Commands) -> None:
    fail_some(gapless)

    agreed = gapless("ledger", "check")
    assert agreed.stdout == "2 backfills checked: events and tables match\n"
    assert agreed.stderr == ""
    assert gapless.json("ledger", "migrate") == {"from": 8, "to": 8}
    assert gapless("ledger", "migrate").line == "schema 8"

    compacted = gapless.json("ledger", "compact")
    assert compacted["events"] > 30
    assert gapless("ledger", "compact").line == "0 events compacted"
    assert gapless.json("ledger", "check") == {"backfills": 2, "problems": []}

    await gapless.home.run(
        "UPDATE chunks SET status = 'COMPLETE' WHERE status = 'ABANDONED' RETURNING 1"
    )
    differs = gapless("ledger", "check", code=1)
    assert differs.stdout.count("p: ") >= 1
    assert differs.stderr.startswith("error: ")
    assert "\n\nhint: " in differs.stderr
    assert gapless.json("ledger", "check", code=1)["problems"] == differs.stdout.splitlines()
