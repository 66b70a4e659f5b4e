"""The keys of every JSON document: pinned here, and described in the reference."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import msgspec
import pytest
from msgspec import Struct

from gapless import views
from gapless.ledger.records import ChunkCounts
from tests.docs import pages

FIELDS = {
    "ActivityView": "time network block",
    "AnchoredView": "height blocks",
    "AttemptView": "attempt at worker error_class error_message traceback",
    "BackfillDetails": (
        "id state state_version stopping job job_version spec parent_backfill_id retry_request_id"
        " group selector partitions chunk_size max_concurrent_runs queue queue_paused order retry"
        " timeout chunks progress_pct error drift created_at started_at ended_at waiting attempts"
    ),
    "BackfillView": (
        "id state state_version stopping job job_version spec parent_backfill_id retry_request_id"
        " group selector partitions chunk_size max_concurrent_runs queue queue_paused order retry"
        " timeout chunks progress_pct error drift created_at started_at ended_at"
    ),
    "BalanceView": (
        "network chain_id symbol token token_id decimals computed computed_raw on_chain"
        " on_chain_raw unexplained unexplained_raw overdrawn complete as_of_block"
    ),
    "ChunkView": (
        "chunk_id chunk_index partitions count done progress_pct status attempts lost fence owner"
        " due error_class error_message"
    ),
    "CompactionView": "events",
    "DeadLetterDetails": (
        "chunk_id backfill_id job partitions missing attempts lost error_class error_message"
        " ended_at"
    ),
    "DeadLetterView": (
        "chunk_id backfill_id job partitions missing attempts lost error_class error_message"
        " ended_at"
    ),
    "EndpointView": "name calls refused trouble resting usable",
    "EraView": "from checks",
    "ErrorFacts": "code message hint",
    "ErrorView": "error",
    "ExplanationView": "chunk_index status reason detail until partitions",
    "ExportView": "network first last rows schema schema_version output",
    "FetchPlanView": (
        "first last requested final missing to_prove_again to_derive calls seconds days"
    ),
    "FetchView": (
        "id state error network chain_id first last blocks requested final stored fetched batches"
        " rows gaps unproven verify not_proven reproven started_at ended_at seconds"
        " blocks_per_second calls requests retries refused endpoints sink ledger"
    ),
    "FinalityView": "tag depth",
    "FindingView": "check table first last message",
    "FollowView": (
        "name backfill_id network chain_id sink datasets endpoints state phase leader start head"
        " final stored lag_blocks lag_seconds head_seen_at head_time trouble silent_seconds"
        " history_blocks history_pct retries gaps alarm"
    ),
    "GapsView": "network chain_id gaps damaged expired blocks",
    "HistoryItemView": (
        "id time network chain_id block transaction kind category direction amount amount_raw"
        " symbol token token_id counterparty flags"
    ),
    "HistoryView": "items next",
    "KnownBlockView": "height hash",
    "LedgerCheckView": "backfills problems",
    "MatrixCell": "state progress_pct",
    "MatrixRow": "group address label networks",
    "MigrationView": "from to",
    "NetworkView": "name chain_id aliases block_time finality checks known_blocks",
    "OverrideView": "movement chain_id category note at",
    "PassView": (
        "network chain_id addresses from to segments stored unstored source calls calls_per_change"
    ),
    "PublisherView": (
        "name network sink server stream phase leader fence start head last_synced_block published"
        " missing kept_changes entries set_aside trouble"
    ),
    "PurgeView": "purged",
    "QueueView": (
        "name paused paused_at active slots pending retry next_retry_at processed failed dead"
        " completed_per_minute oldest_wait_seconds"
    ),
    "RateView": "calls_per_second blocks_per_second limited",
    "ReportView": (
        "network chain_id first last complete deep not_final not_proven anchored reproven"
        " not_reproven tables findings"
    ),
    "RetryView": "kind base max_delay jitter retries delays lost_limit",
    "SearchView": "network source blocks proven unproven",
    "SyncView": (
        "group address label network chain_id sink state from to progress_pct segments"
        " blocks_done blocks_total last_processed_block attempts error_class error_message"
        " next_retry_after backfills created_at updated_at"
    ),
    "TableView": "table rows stored expired gaps damaged proven unproven",
    "UnreadableFollowView": "name backfill_id phase problem",
    "UnusableEndpoint": "endpoint usable error hint",
    "UsableEndpoint": (
        "endpoint chain_id network client head finalized known_block genesis earliest_block"
        " receipts_by_block receipts_by_transaction batch_calls logs_range offers rate calls"
        " decoder usable meaning"
    ),
    "WalletDetails": (
        "group address label syncs searched known_to followed_to balances last_activity"
    ),
    "WithdrawalView": "withdrawn dry_run",
    "WorkerView": (
        "completed failed given_back lease_lost partitions blocks batches seconds"
        " partitions_per_second"
    ),
}
"""The keys of each view in the order in which they are printed: a contract with readers."""

SECTIONS = {
    "Errors": ("ErrorView", "ErrorFacts"),
    "Fetch": ("FetchView", "EndpointView", "FetchPlanView"),
    "Backfills": ("BackfillView", "BackfillDetails", "ExplanationView", "RetryView"),
    "Chunks": ("ChunkView",),
    "Dead letters": ("DeadLetterView", "DeadLetterDetails", "PurgeView"),
    "Queues": ("QueueView",),
    "Follows": ("FollowView", "UnreadableFollowView"),
    "Wallets": (
        *("SyncView", "MatrixRow", "MatrixCell", "WalletDetails", "SearchView", "ActivityView"),
        "PassView",
        *("BalanceView", "HistoryView", "HistoryItemView", "OverrideView"),
    ),
    "Publishers": ("PublisherView",),
    "Worker": ("WorkerView",),
    "Networks": ("NetworkView", "FinalityView", "EraView", "KnownBlockView"),
    "Endpoints": ("UsableEndpoint", "UnusableEndpoint", "RateView"),
    "Attempts": ("AttemptView",),
    "Verify": ("ReportView", "TableView", "FindingView", "AnchoredView"),
    "Gaps": ("GapsView",),
    "Repair": ("WithdrawalView",),
    "Export": ("ExportView",),
    "Ledger": ("LedgerCheckView", "MigrationView", "CompactionView"),
}
"""Where the reference describes each view."""


def all_views() -> Iterator[type[Struct]]:
    for found in pkgutil.iter_modules(views.__path__, "gapless.views."):
        module = importlib.import_module(found.name)
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, Struct):
                if each.__module__ != found.name:
                    continue  # it is imported there
                yield each


VIEWS = {each.__name__: each for each in all_views()}


def test_every_view_is_included() -> None:
    assert sorted(VIEWS) == sorted(FIELDS)
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(FIELDS)


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_the_keys_of_a_view(name: str) -> None:
    keys = [field.encode_name for field in msgspec.structs.fields(VIEWS[name])]
    assert keys == FIELDS[name].split()
    assert VIEWS[name].__struct_config__.frozen
    assert not VIEWS[name].__struct_config__.omit_defaults


def test_the_keys_of_the_chunk_counts() -> None:
    assert [*ChunkCounts.__dataclass_fields__] == (
        ["total", "planned", "pending", "running", "complete", "failed", "abandoned", "cancelled"]
    )


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_reference_describes_every_key(heading: str) -> None:
    page = (pages.ROOT / "docs/reference/json.md").read_text()
    _, found, section = page.partition(f"\n## {heading}\n")
    assert found
    text = re.split(r"^## ", section, maxsplit=1, flags=re.MULTILINE)[0]
    keys = {key for name in SECTIONS[heading] for key in FIELDS[name].split()}
    named = {*re.findall(r"`(\w+)`", text), *re.findall(r'"(\w+)":', text)}
    assert sorted(keys - named) == []
