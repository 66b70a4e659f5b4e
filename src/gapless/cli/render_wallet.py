"""Text for people about wallets. Pure: nothing here prints, asks or reads a clock."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless.cli.render import BAR, bar, table
from gapless.core.proof import AGREED
from gapless.core.ranges import Span
from gapless.core.redaction import redact
from gapless.core.text import plain
from gapless.ledger.syncs import SyncState
from gapless.views.figures import counted, cut, duration, span_text, time_text
from gapless.wallets.forms import inert

if TYPE_CHECKING:
    from gapless.cli.suggestions import Commands
    from gapless.ledger.syncs import Sync
    from gapless.views.wallets import (
        BalanceView,
        HistoryItemView,
        MatrixCell,
        MatrixRow,
        PassView,
        SearchView,
        SyncView,
        WalletDetails,
    )

MOST_BALANCES = 20
UNKNOWN = "unknown"
COLUMNS = (
    *("id", "time", "network", "chain_id", "block", "transaction", "kind", "category"),
    *("direction", "amount", "amount_raw", "symbol", "token", "token_id", "counterparty"),
    "flags",
)
"""The columns of a history as CSV: the keys of its JSON."""
_FOREIGN = {"symbol", "token"}
"""Columns whose text may come from a contract."""
_SIGNS = {1: "+", -1: "-", 0: ""}
_WIDEST_ID = 12
_MOST_CHECKS = 4  # that are named


@dataclass(frozen=True)
class SyncSnapshot:
    """How far some wallets are."""

    syncs: Sequence[Sync]

    def text(self, width: int) -> str:
        done = sum(each.progress.done for each in self.syncs)
        total = max(sum(each.progress.total for each in self.syncs), 1)
        synced = sum(each.state is SyncState.COMPLETE for each in self.syncs)
        parts = [f"{100 * done / total:.1f}%", f"{synced:,}/{len(self.syncs):,} synced"]
        waiting = [each for each in self.syncs if each.state is SyncState.FAILED]
        if waiting and (trouble := waiting[0].progress.trouble):
            parts.append(f"{len(waiting):,} waiting: {plain(redact(trouble.error_message))}")
        if synced == len(self.syncs):
            parts.append("classifying")
        room = width - len("  ".join(["wallets", *parts])) - 2
        drawn = [bar(done / total, min(room, BAR))] if room >= BAR // 3 else []
        return cut("  ".join(["wallets", *drawn, *parts]), width)

    def fields(self) -> dict[str, Any]:
        states = Counter(each.state.value for each in self.syncs)
        return {
            "syncs": len(self.syncs),
            "states": dict(states),
            "blocks_done": sum(each.progress.done for each in self.syncs),
            "blocks_total": sum(each.progress.total for each in self.syncs),
        }


def opening(syncs: Sequence[SyncView]) -> str:
    """What is about to be done for wallets."""
    if not syncs:
        return "nothing to do: the history of all these wallets is planned and complete"
    networks = []
    for name in dict.fromkeys(each.network for each in syncs):
        its = [each for each in syncs if each.network == name]
        last = max(each.last for each in its)
        first = min(each.first for each in its)
        wallets = counted(len(its), "wallet")
        networks.append(f"{name}: {wallets}, blocks {span_text(Span(first, last))}")
    return "\n".join(networks)


def plan(passes: Sequence[PassView], *, may_scan: bool) -> str:
    """What adding wallets would do, and what it costs."""
    if not passes:
        return "nothing to do: the history of all these wallets is planned"
    lines = []
    for each in passes:
        wallets = counted(len(each.addresses), "wallet")
        span = span_text(Span(each.first, each.last))
        lines.append(
            f"{each.network}: {wallets}, blocks {span} in {counted(each.segments, 'segment')}"
        )
        if each.stored:
            request = (
                f"{counted(each.stored, 'trace')}" if each.source == "traces" else "no request"
            )
            lines.append(f"  {counted(each.stored, 'block')} from stored tables: {request}")
        if not each.unstored:
            continue
        calls = ", ".join(f"{count:,} {name}" for name, count in each.calls.items())
        blocks = counted(each.unstored, "block")
        if may_scan:
            lines.append(f"  {blocks} by a search for events, then every block that has some")
            if each.calls_per_change is not None:
                lines.append(
                    "  coins of accounts without code from their balances and nonces, in about"
                    f" {each.calls_per_change} calls per block that changed them"
                )
            else:
                lines.append(f"  coins that moved without an event stay unknown; `--scan`: {calls}")
        else:
            lines.append(f"  {blocks} to fetch: at least {calls}")
    return "\n".join(lines)


def failure(left: Sequence[SyncView]) -> str:
    """What went wrong with syncs that are not complete."""
    first = next((each for each in left if each.error_message), left[0])
    why = f": {plain(first.error_message)}" if first.error_message else ""
    return f"{counted(len(left), 'sync')} not complete on {first.network}{why}"


def sync_table(syncs: Sequence[SyncView]) -> str:
    head = ("wallet", "label", "group", "network", "state", "progress", "blocks", "sink", "trouble")
    return table([head, *map(_sync_row, syncs)])


def _sync_row(sync: SyncView) -> tuple[str, ...]:
    return (
        sync.address,
        sync.label or "",
        sync.group,
        sync.network,
        sync.state,
        f"{sync.progress_pct:.1f}%",
        span_text(Span(sync.first, sync.last)),
        sync.sink,
        _trouble(sync),
    )


def _trouble(sync: SyncView) -> str:
    """Why it is not done, and when it is tried again."""
    if sync.error_message is None or sync.state is SyncState.COMPLETE:
        return ""
    text = f"{sync.error_class}: {sync.error_message}"
    if sync.next_retry_after is None:
        return text
    return f"{text} (attempt {sync.attempts}, again at {time_text(sync.next_retry_after)})"


def matrix(rows: Sequence[MatrixRow]) -> str:
    """Wallets in rows, networks in columns."""
    networks = sorted({name for row in rows for name in row.networks})
    head = ("wallet", "label", "group", *networks)
    return table([head, *(_matrix_row(row, networks) for row in rows)])


def _matrix_row(row: MatrixRow, networks: Sequence[str]) -> tuple[str, ...]:
    cells = (_cell(row.networks.get(name)) for name in networks)
    return (row.address, row.label or "", row.group, *cells)


def _cell(cell: MatrixCell | None) -> str:
    if cell is None:
        return "-"
    name = cell.state.value.lower()
    return name if cell.state is SyncState.COMPLETE else f"{name} {cell.progress_pct:.1f}%"


def page(wallet: WalletDetails, now: float, *, is_asked: bool = False) -> str:
    """Everything about one wallet; `now` is the time of this process.

    `is_asked` is whether its balances were to be compared with the chain.
    """
    label = f" ({plain(wallet.label)})" if wallet.label else ""
    lines = [f"{wallet.address}{label}  group {plain(wallet.group)}", ""]
    head = ("network", "state", "progress", "blocks", "done to", "updated", "sink", "trouble")
    rows = [_progress_row(each, wallet, now) for each in wallet.syncs]
    lines += [*table([head, *rows]).splitlines(), ""]
    lines += [f"searched: {line}" for line in searches(wallet.searched)]
    lines += _from_tables(wallet)
    lines.append(f"last activity: {_activity(wallet)}")
    if wallet.balances:
        shown = wallet.balances[:MOST_BALANCES]
        lines += ["", *balance_table(shown, is_asked=is_asked).splitlines()]
        if (more := len(wallet.balances) - MOST_BALANCES) > 0:
            lines.append(f"… and {more:,} more")
    return "\n".join(lines)


def _progress_row(sync: SyncView, wallet: WalletDetails, now: float) -> tuple[str, ...]:
    known_to = wallet.known_to.get(sync.network, -1)
    if sync.network in wallet.followed_to:
        updated = f"followed to block {known_to:,}"
    elif known_to > sync.last:
        updated = f"stored to block {known_to:,}"
    else:
        updated = f"{duration(now - sync.updated_at.timestamp())} ago"
    return (
        sync.network,
        sync.state,
        f"{sync.progress_pct:.1f}%",
        span_text(Span(sync.first, sync.last)),
        "none" if sync.last_processed_block is None else f"{sync.last_processed_block:,}",
        updated,
        sync.sink,
        _trouble(sync),
    )


_SOURCES = {
    "tables": "stored tables",
    "events": "events by address; coins that moved without an event were not looked for",
    "accounts": "events by address and from what accounts had and signed",
    "blocks": "every block",
    "traces": "every block and its traces",
}


_FINDING_MORE = {"accounts", "traces"}
"""Sources that show more of the coins than stored tables do."""


def searches(found: Sequence[SearchView]) -> list[str]:
    """Where a wallet's movements were looked for, and what is proven of that."""
    lines = []
    for each in found:
        where = _SOURCES.get(each.source, each.source)
        parts = [f"proven: {_checks(each.proven)}"] if each.proven else []
        if unproven := [name for name in each.unproven if name != AGREED]:
            parts.append(f"unproven: {_checks(unproven)}")
        if AGREED in each.unproven:
            parts.append("unproven: no second endpoint confirms it")
        proof = f" ({'; '.join(parts)})" if parts else ""
        lines.append(f"{each.network}: {counted(each.blocks, 'block')} from {where}{proof}")
    return lines


def _from_tables(wallet: WalletDetails) -> list[str]:
    """Which later blocks come from stored tables, and what these do not show."""
    lines = []
    for sync in wallet.syncs:
        sources = {it.source for it in wallet.searched if it.network == sync.network}
        if (later := wallet.known_to.get(sync.network, -1) - sync.last) > 0:
            sources.add("tables")
            lines.append(
                f"added: {sync.network}: {counted(later, 'later block')} from stored tables"
            )
        if "tables" in sources and sources & _FINDING_MORE:
            lines.append(
                f"note: stored tables of {sync.network} do not show coins that contracts sent:"
                " these stay unexplained"
            )
    return lines


def _checks(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _MOST_CHECKS else counted(len(names), "check")


def _activity(wallet: WalletDetails) -> str:
    last = wallet.last_activity
    if last is None:
        return "none is known"
    return f"{time_text(last.time)} in block {last.block:,} of {last.network}"


def balance_table(balances: Sequence[BalanceView], *, is_asked: bool = False) -> str:
    """What a wallet holds; without what the chain says if no node was asked."""
    is_compared = is_asked or any(each.on_chain is not None for each in balances)
    compared = ("on-chain", "unexplained") if is_compared else ()
    head = ("network", "token", "computed", *compared, "as of block", "contract")
    return table([head, *(_balance_row(each, is_compared=is_compared) for each in balances)])


def _balance_row(it: BalanceView, *, is_compared: bool) -> tuple[str, ...]:
    as_of = UNKNOWN if it.as_of_block is None else f"{it.as_of_block:,}"
    compared = (it.on_chain or UNKNOWN, it.unexplained or UNKNOWN) if is_compared else ()
    return (
        it.network,
        _token(it),
        it.computed,
        *compared,
        as_of if it.complete or it.as_of_block is None else f"{as_of}, incomplete",
        it.token or "",
    )


def history_table(items: Sequence[HistoryItemView]) -> str:
    head = ("time", "network", "block", "category", "amount", "token", "counterparty", "id", "")
    return table([head, *map(_item_row, items)])


def _item_row(it: HistoryItemView) -> tuple[str, ...]:
    return (
        time_text(it.time),
        it.network,
        f"{it.block:,}",
        it.category,
        it.amount if it.amount == "0" else f"{_SIGNS[it.direction]}{it.amount}",
        _token(it),
        it.counterparty or "nobody",
        it.id,
        " ".join(it.flags),
    )


def _token(it: BalanceView | HistoryItemView) -> str:
    """A token by its name; one without a name by the ends of its contract."""
    name = it.symbol
    if name == it.token and len(name) > _WIDEST_ID:
        name = f"{name[:6]}…{name[-4:]}"
    return name if it.token_id is None else f"{name} #{cut(it.token_id, _WIDEST_ID)}"


def history_csv(items: Iterable[HistoryItemView]) -> Iterator[str]:
    """A line for the names of the columns, then one for each item."""
    yield _line(COLUMNS)
    for it in items:
        values = {name: _text(getattr(it, name)) for name in COLUMNS}
        values |= {name: inert(values[name]) for name in _FOREIGN}
        yield _line([*values.values()])


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case tuple():
            return " ".join(map(str, value))
        case int() | str():
            return str(value)
    return time_text(value)  # type: ignore[arg-type] # the only other kind of value


def _line(values: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue()


def what_is_unknown(balances: Sequence[BalanceView], searched: Sequence[SearchView]) -> str | None:
    """What to think of balances that the chain does not confirm, or that nobody compared."""
    found = []
    if unasked := [each for each in balances if each.on_chain is None]:
        found.append(f"{counted(len(unasked), 'balance')} not compared with the chain")
    if apart := [each for each in balances if each.unexplained_raw not in (None, "0")]:
        tokens = ", ".join(dict.fromkeys(plain(_token(each)) for each in apart[:4]))
        found.append(
            f"{counted(len(apart), 'balance')} with an unexplained part ({tokens}): internal"
            " transfers, rewards and tokens that rebase leave no movement that can be found"
        )
    if any(each.source == "events" for each in searched):
        found.append("coins that moved without an event were not looked for in all blocks")
    return "\n".join(found) or None


def next_step(wallet: WalletDetails, commands: Commands) -> str | None:
    """What a person can do about a wallet whose history is not complete or not recent."""
    states = {each.state for each in wallet.syncs}
    if states & {SyncState.ABANDONED, SyncState.CANCELLED}:
        return f"{commands('wallet', 'sync', wallet.address)} retries what is missing"
    if states & {SyncState.PENDING, SyncState.RUNNING, SyncState.FAILED}:
        return f"{commands('wallet', 'sync', wallet.address)} or a worker completes it"
    if not all(each.network in wallet.followed_to for each in wallet.syncs):
        return f"{commands('wallet', 'sync', wallet.address)} continues to the latest final block"
    return None
