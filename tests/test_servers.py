"""The test servers keep their promises: empty databases, recovery from crashes, no leftovers."""

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.servers import PostgresConfig, PostgresServer


async def test_a_committed_row_survives_a_crash_on_the_same_port() -> None:
    with PostgresServer(PostgresConfig(fsync=True)) as server:
        server.create_database("ledger")
        url = server.url("ledger")

        before = await asyncpg.connect(url)
        assert await before.fetchval("SHOW fsync") == "on"
        await before.execute("CREATE TABLE kept AS SELECT 1 AS height")
        server.restart_immediate()
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await before.fetchval("SELECT 1")

        assert server.url("ledger") == url
        after = await asyncpg.connect(url)
        assert await after.fetchval("SELECT height FROM kept") == 1
        await after.close()
    assert not server.folder.exists()


@pytest.mark.parametrize("_turn", [1, 2])
async def test_every_test_gets_an_empty_database(postgres_url: str, _turn: int) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE TABLE mine (height bigint)")
    await connection.close()


async def test_a_database_can_be_cloned(postgres: PostgresServer, postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE TABLE kept AS SELECT 7 AS height")
    await connection.close()

    postgres.create_database("clone", template=postgres_url.rpartition("/")[2])
    connection = await asyncpg.connect(postgres.url("clone"))
    assert await connection.fetchval("SELECT height FROM kept") == 7
    postgres.drop_database("clone")
    await connection.close()


def test_a_failure_shows_the_output_of_the_program(postgres: PostgresServer) -> None:
    with pytest.raises(RuntimeError, match=r"`psql` failed: .*\"nowhere\" does not exist"):
        postgres.create_database("other", template="nowhere")


_ORPHAN = """
import sys
from tests.servers import PostgresServer
server = PostgresServer()
server.start()
print(server.keeper.pid, server.port, server.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="waits on a process that is not its child")
def test_nothing_is_left_after_the_test_process_is_killed() -> None:
    command = [sys.executable, "-c", _ORPHAN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        keeper, port, folder = process.stdout.readline().split()
        ended = os.pidfd_open(int(keeper))
        process.send_signal(signal.SIGKILL)
    select.select([ended], [], [])
    os.close(ended)

    assert not Path(os.fsdecode(folder)).exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)))
