"""The public interface changes on purpose, or not at all."""

import gapless

NAMES = """
BackfillHandle BlockingContext Chunk Context Engine Explicit FetchResult Filter GaplessError Job
PermanentError Range RetryPolicy TransientError blocks daily epochs fetch hourly job monthly static
"""


def test_these_are_the_public_names() -> None:
    assert gapless.__all__ == NAMES.split()
    assert all(getattr(gapless, name) for name in gapless.__all__)
