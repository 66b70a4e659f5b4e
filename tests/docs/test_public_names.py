"""The public interface changes on purpose, or not at all."""

import subprocess
import sys

import gapless

NAMES = """
FOLLOW_SLOTS BackfillHandle BlockingContext Chunk Context Engine Explicit FetchProgress FetchResult
Filter FollowHandle GaplessError Job PermanentError Providers Range Report RetryPolicy
TransientError __version__ add_wallets block_heights daily epochs fetch fetch_sync follow hourly job
label_wallet list_wallets monthly override_movement remove_wallets show_wallet static sync_wallets
verify verify_sync wallet_balances wallet_history wallet_overrides
"""


def test_the_public_names() -> None:
    assert gapless.__all__ == NAMES.split()
    assert all(getattr(gapless, name) for name in gapless.__all__)


def test_public_names_are_listed_before_they_are_imported() -> None:
    """`dir`, and so the completion of a shell, does not need to load anything."""
    code = "import gapless, sys; print(*dir(gapless)); assert 'gapless.runtime' not in sys.modules"
    listed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert {*gapless.__all__} <= {*listed.stdout.split()}


def test_a_function_is_not_hidden_by_a_package_of_the_same_name() -> None:
    code = "import gapless.cli.verify, gapless; assert callable(gapless.verify), gapless.verify"
    subprocess.run([sys.executable, "-c", code], check=True)
