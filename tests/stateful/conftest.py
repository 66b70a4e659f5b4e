"""The laws are asserts outside of test files; pytest explains those only on request."""

import pytest

pytest.register_assert_rewrite(
    "tests.stateful.followers",
    "tests.stateful.laws",
    "tests.stateful.machine",
    "tests.stateful.stage",
    "tests.stateful.wallets",
)
