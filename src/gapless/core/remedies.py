"""What a person can do about an error, without naming the interface that they use.

A layer below the interfaces must not name a flag or a command: whoever catches the error may be a
Python program, an HTTP client or the CLI. So an error carries a remedy, a value of the closed
vocabulary below with whatever the advice needs to know. As text, a remedy is a sentence that makes
sense everywhere; the CLI maps it to flags and commands in `gapless.cli.remedies`.
"""

from __future__ import annotations

import re
from typing import ClassVar

from msgspec import Struct, structs


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Remedy(Struct, frozen=True, tag=_snake):
    """The root of the vocabulary; a remedy is named by its class in snake case."""

    sentence: ClassVar[str]

    def __str__(self) -> str:
        return self.sentence.format(**structs.asdict(self))


# backfills


class ListBackfills(Remedy, frozen=True):
    sentence = "list the backfills of this ledger to find the right id"


class ShowBackfill(Remedy, frozen=True):
    sentence = "look at the backfill `{backfill_id}`"
    backfill_id: str


class EndBackfill(Remedy, frozen=True):
    sentence = "wait until `{backfill_id}` has ended, or cancel it first"
    backfill_id: str


class ListDeadLetters(Remedy, frozen=True):
    sentence = "list the dead letters of `{backfill_id}`"
    backfill_id: str


class ListFollows(Remedy, frozen=True):
    sentence = "list the follows of this ledger to find the right name"


class RemoveFollow(Remedy, frozen=True):
    sentence = "follow under another name, or remove `{name}`; its blocks stay"
    name: str


class ListWallets(Remedy, frozen=True):
    sentence = "list the wallets of this ledger to find the right one"


class ListBalances(Remedy, frozen=True):
    sentence = "the balances of `{wallet}` have the contracts of its tokens"
    wallet: str


class ListHistory(Remedy, frozen=True):
    sentence = "the entries of the history of `{wallet}` have the ids of its movements"
    wallet: str


class ChooseOne(Remedy, frozen=True):
    """`kind` is what there are several of, such as `group`."""

    sentence = "say which {kind} you mean"
    kind: str


class ChooseQueue(Remedy, frozen=True):
    sentence = "the queues are: {queues}"
    queues: tuple[str, ...]

    def __str__(self) -> str:
        if not self.queues:
            return "there are no queues yet: backfills and workers create them"
        return self.sentence.format(queues=", ".join(f"`{name}`" for name in self.queues))


class ChooseCommand(Remedy, frozen=True):
    """`commands` are those that the backfill's state allows: `show`, `retry_failed`, …"""

    sentence = "possible now: {commands}"
    commands: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(self.commands).replace("_", " ")
        return self.sentence.format(commands=names)


# the ledger


class CreateLedger(Remedy, frozen=True):
    sentence = "start a backfill to create it, or give the URL of another ledger"


class ChooseLedger(Remedy, frozen=True):
    sentence = "give the path of another ledger"


class MigrateLedger(Remedy, frozen=True):
    sentence = "stop the workers, then migrate the ledger"


class CheckLedger(Remedy, frozen=True):
    sentence = "check the ledger: that lists all its problems"


# endpoints


class GiveEndpoint(Remedy, frozen=True):
    sentence = "give the URL of a node, or name an endpoint in the configuration"


class AllowVariable(Remedy, frozen=True):
    """A variable is set, but it is not known to be an endpoint of this network."""

    sentence = (
        "`{variable}` is used for `{owner}` only: give `env:{variable}` as an endpoint if it is a"
        " node of `{network}`"
    )
    variable: str
    owner: str
    network: str


class ExamineEndpoint(Remedy, frozen=True):
    sentence = "find out what the endpoint can do, or add another one"


class AddEndpoint(Remedy, frozen=True):
    sentence = "add another endpoint, then retry the block"


class CheckAnchor(Remedy, frozen=True):
    sentence = "check the URL of the endpoint, and the anchor if you gave one"


class LowerLevel(Remedy, frozen=True):
    sentence = (
        "another endpoint may have the true block; if all agree, the network's rules may have"
        " changed: a lower level of verification stores its blocks without this proof"
    )


# what is fetched and stored


class GiveSink(Remedy, frozen=True):
    sentence = "give a sink: a path such as `chain.db` or `folder/`, or a URL"


class UseOneProcess(Remedy, frozen=True):
    sentence = "use one process, or fetch into a sink of another kind"


class FetchBlocks(Remedy, frozen=True):
    """`has_endpoint` says whether the configuration names an endpoint of this network."""

    sentence = "fetch blocks of `{network}` into `{sink}`"
    network: str
    sink: str
    has_endpoint: bool


class RepairBlocks(Remedy, frozen=True):
    """An empty `sink` is one that the layer which found the damage knows no name for."""

    sentence = "repair the sink: fetch these blocks again in place of the stored ones"
    sink: str = ""
    has_endpoint: bool = True


class ReplaceBranch(Remedy, frozen=True):
    """As `RepairBlocks`, where the stored blocks are sound but on another branch."""

    sentence = "if the node is right, repair the sink and let that replace the stored branch"
    sink: str = ""
    has_endpoint: bool = True


class VerifySink(Remedy, frozen=True):
    sentence = "verify the sink: that lists everything that is wrong"


class ListNetworks(Remedy, frozen=True):
    sentence = "give the name of a known network; {unlisted} take any other chain"
    unlisted: str  # networks that stand for every chain of their kind


class ChooseNetwork(Remedy, frozen=True):
    sentence = "say which network you mean"


class GiveBlocks(Remedy, frozen=True):
    sentence = "name the sink and the range of blocks instead"


class ResolveDates(Remedy, frozen=True):
    sentence = "plan a fetch of these dates: its plan names the heights"


# files


class WriteConfiguration(Remedy, frozen=True):
    sentence = "compare it with the reference of the configuration"


class ChooseCache(Remedy, frozen=True):
    sentence = "choose another cache folder, or set `XDG_CACHE_HOME`"


AnyRemedy = (
    ListBackfills
    | ShowBackfill
    | EndBackfill
    | ListDeadLetters
    | ListFollows
    | RemoveFollow
    | ListWallets
    | ListBalances
    | ListHistory
    | ChooseOne
    | ChooseQueue
    | ChooseCommand
    | CreateLedger
    | ChooseLedger
    | MigrateLedger
    | CheckLedger
    | GiveEndpoint
    | AllowVariable
    | ExamineEndpoint
    | AddEndpoint
    | CheckAnchor
    | LowerLevel
    | GiveSink
    | UseOneProcess
    | FetchBlocks
    | RepairBlocks
    | ReplaceBranch
    | VerifySink
    | ListNetworks
    | ChooseNetwork
    | GiveBlocks
    | ResolveDates
    | WriteConfiguration
    | ChooseCache
)
"""The whole vocabulary, so that an interface can be held to have words for each."""
