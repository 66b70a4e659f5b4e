"""What a person can do about an error, in the words of the CLI: with its flags and commands.

The layers below say it as a value (`gapless.core.remedies`). This is the one place where such a
value becomes a hint that can be typed as it is; the type checker sees to it that none is left out.
"""

from __future__ import annotations

from typing import assert_never

from gapless.cli.suggestions import Commands, fetch_command, repair_command
from gapless.core import remedies as to
from gapless.core.errors import GaplessError

_COMMANDS = {"retry_failed": "retry-failed", "force_cancel": "cancel --force"}
"""Commands of a backfill that the CLI spells in its own way."""


def hint_of(error: GaplessError, commands: Commands, sink: str = "") -> str | None:
    """The hint of an error; `sink` is the one that the command line names, if any."""
    return error.hint if error.remedy is None else in_words(error.remedy, commands, sink)


def in_words(remedy: to.AnyRemedy, commands: Commands, sink: str = "") -> str:
    match remedy:
        case to.ListBackfills():
            return f"{commands('backfill', 'ls')} lists them"
        case to.ShowBackfill(backfill_id):
            return f"{commands('backfill', 'show', backfill_id)} shows it"
        case to.EndBackfill(backfill_id):
            return f"wait with {commands('backfill', 'wait', backfill_id)}, or cancel it first"
        case to.ListDeadLetters(backfill_id):
            return f"{commands('dead', 'ls', backfill_id)} lists them"
        case to.ListFollows():
            return f"{commands('follow', 'ls')} lists them"
        case to.RemoveFollow(name):
            removing = commands("follow", "rm", name)
            return f"follow under another `--name`, or run {removing} first; its blocks stay"
        case to.ListWallets():
            return f"{commands('wallet', 'ls')} lists them"
        case to.ListBalances(wallet):
            return f"{commands('wallet', 'balances', wallet)} lists the contracts"
        case to.ListHistory(wallet):
            return f"{commands('wallet', 'history', wallet)} lists the ids"
        case to.ChooseOne(kind):
            return f"choose one with `--{kind}`"
        case to.ChooseQueue():
            return f"{remedy}; {commands('queues')} shows them"
        case to.ChooseCommand(names):
            return f"possible now: {', '.join(_COMMANDS.get(each, each) for each in names)}"
        case to.CreateLedger():
            made = "`gapless fetch`, `gapless wallet add` or `gapless backfill start` creates one"
            return f"{made}; to use another, give `--ledger` or set `GAPLESS_LEDGER`"
        case to.ChooseLedger():
            return "give another path with `--ledger`"
        case to.MigrateLedger():
            return f"stop the workers, then run {commands('ledger', 'migrate')}"
        case to.CheckLedger():
            return f"{commands('ledger', 'check')} lists all problems"
        case to.GiveEndpoint():
            return "give one with `--rpc URL`, or in `gapless.toml` (`gapless init` writes one)"
        case to.AllowVariable(variable, owner, network):
            given = f"give `--rpc env:{variable}` if it is a node of `{network}`"
            return f"`{variable}` is used for `{owner}` only: {given}"
        case to.ExamineEndpoint():
            return "run `gapless doctor` on the endpoint, or add another one with `--rpc`"
        case to.AddEndpoint():
            return "add another endpoint with one more `--rpc`, then retry"
        case to.CheckAnchor():
            return "check the URL of the endpoint, and the hash if you gave it with `--anchor`"
        case to.LowerLevel():
            return (
                "another endpoint may have the true block; if all agree, the network's rules may"
                " have changed: a lower `--verify` level stores its blocks without this proof"
            )
        case to.GiveSink():
            return "give `--to chain.db` or `--to folder/`"
        case to.UseOneProcess():
            return "leave out `--processes`, or fetch into a sink of another kind"
        case to.FetchBlocks(network, target, has_endpoint):
            command = fetch_command(network, "A:B", target, has_endpoint=has_endpoint)
            return f"fetch some with `{command}`"
        case to.RepairBlocks(target, has_endpoint):
            command = repair_command(target or sink or "SINK", has_endpoint=has_endpoint)
            return f"`{command}` replaces what is damaged"
        case to.ReplaceBranch(target, has_endpoint):
            target = target or sink or "SINK"
            command = repair_command(target, "--replace-branch", has_endpoint=has_endpoint)
            return f"if the node is right, replace the stored branch: `{command}`"
        case to.VerifySink():
            return f"`gapless verify {sink or 'SINK'}` lists everything that is wrong"
        case to.ListNetworks(unlisted):
            return f"`gapless networks` lists them; {unlisted} take any other chain"
        case to.ChooseNetwork():
            return "choose one with `--network NAME`"
        case to.GiveBlocks():
            return "name the sink and `--blocks` instead"
        case to.ResolveDates():
            return "`gapless fetch NETWORK A:B --dry-run` prints the heights of dates"
        case to.WriteConfiguration():
            return "`gapless init` writes an example"
        case to.ChooseCache():
            return "choose another folder with `--cache` or `XDG_CACHE_HOME`"
        case _:
            assert_never(remedy)
