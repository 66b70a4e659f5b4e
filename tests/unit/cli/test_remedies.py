"""The hint that the CLI prints for each remedy, and the hint without a CLI."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from gapless.cli.remedies import hint_of, in_words
from gapless.cli.suggestions import Commands
from gapless.core import remedies
from gapless.core.errors import UsageError
from gapless.core.remedies import AnyRemedy

FLAG = re.compile(r"--[a-z]|`gapless ")
EXAMPLES: list[AnyRemedy] = [
    remedies.ListBackfills(),
    remedies.ShowBackfill("bf_1"),
    remedies.EndBackfill("bf_1"),
    remedies.ListDeadLetters("bf_1"),
    remedies.ListFollows(),
    remedies.RemoveFollow("ethereum-eth"),
    remedies.ListWallets(),
    remedies.ListBalances("0xa1"),
    remedies.ListHistory("0xa1"),
    remedies.ChooseOne("group"),
    remedies.ChooseQueue(("backlog", "default")),
    remedies.ChooseCommand(("show", "retry_failed")),
    remedies.CreateLedger(),
    remedies.ChooseLedger(),
    remedies.MigrateLedger(),
    remedies.CheckLedger(),
    remedies.GiveEndpoint(),
    remedies.AllowVariable("ETH_RPC_URL", "ethereum", "base"),
    remedies.ExamineEndpoint(),
    remedies.AddEndpoint(),
    remedies.CheckAnchor(),
    remedies.LowerLevel(),
    remedies.GiveSink(),
    remedies.UseOneProcess(),
    remedies.FetchBlocks("base", "x.db", has_endpoint=False),
    remedies.RepairBlocks(),
    remedies.ReplaceBranch("x.db", has_endpoint=False),
    remedies.VerifySink(),
    remedies.ListNetworks("`custom`"),
    remedies.ChooseNetwork(),
    remedies.GiveBlocks(),
    remedies.ResolveDates(),
    remedies.WriteConfiguration(),
    remedies.ChooseCache(),
]


def test_every_remedy_has_an_example() -> None:
    assert [type(each) for each in EXAMPLES] == [*get_args(AnyRemedy)]


@pytest.mark.parametrize("remedy", EXAMPLES, ids=lambda each: type(each).__name__)
def test_only_the_cli_names_flags_and_commands(remedy: AnyRemedy) -> None:
    assert not FLAG.search(str(remedy))
    assert "{" not in str(remedy)
    if not isinstance(remedy, remedies.ChooseCommand):
        assert FLAG.search(in_words(remedy, Commands()))


@pytest.mark.parametrize(
    ("remedy", "hint"),
    [
        (remedies.ListBackfills(), "`gapless backfill ls --ledger x.db` lists them"),
        (
            remedies.ChooseCommand(("wait", "force_cancel")),
            "possible now: wait, cancel --force",
        ),
        (
            remedies.FetchBlocks("base", "x.db", has_endpoint=False),
            "fetch some with `gapless fetch base A:B --rpc … --to x.db`",
        ),
        (remedies.RepairBlocks(), "`gapless repair 'my sink.db'` replaces what is damaged"),
        (
            remedies.ReplaceBranch("y.db", has_endpoint=False),
            (
                "if the node is right, replace the stored branch:"
                " `gapless repair y.db --replace-branch --rpc …`"
            ),
        ),
    ],
)
def test_a_hint_can_be_typed_as_printed(remedy: AnyRemedy, hint: str) -> None:
    error = UsageError("what happened", remedy=remedy)
    assert hint_of(error, Commands("x.db"), "my sink.db") == hint


def test_without_a_remedy_the_error_supplies_the_hint() -> None:
    assert hint_of(UsageError("what happened", hint="what to do"), Commands()) == "what to do"
    assert hint_of(UsageError("what happened"), Commands()) is None
