"""Whatever happens, the ledger keeps its promises: one state machine, both databases.

`GAPLESS_EXAMPLES=3000 pytest tests/stateful` looks longer.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from gapless.ledger.database import Database, Transaction
from gapless.ledger.postgres import PostgresDatabase
from gapless.ledger.sqlite import SqliteDatabase
from tests.servers import PostgresServer
from tests.stateful.laws import Deed
from tests.stateful.machine import LedgerMachine
from tests.stateful.tables import PostgresTables, SqliteTables, Tables
