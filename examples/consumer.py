"""Read the events of a chain from a Redis stream into SQLite, each block once.

    python consumer.py redis://127.0.0.1:6379/0 chain:events [--blocks COUNT]

It is one consumer of a consumer group. Redis remembers what it has acknowledged, so it resumes
where it stopped, even after `kill -9`: entries that were read but not acknowledged are delivered
again, in the same order. Applying an entry twice changes nothing.
"""

import argparse
import json
import sqlite3
from typing import Any

import redis

GROUP, CONSUMER = "example", "one"
TABLES = """
CREATE TABLE IF NOT EXISTS blocks (height INTEGER PRIMARY KEY, hash TEXT);
CREATE TABLE IF NOT EXISTS events (
  height INTEGER, transaction_index INTEGER, position INTEGER, address TEXT, topic0 TEXT,
  PRIMARY KEY (height, transaction_index, position)
);
"""


def apply(database: sqlite3.Connection, entry: dict[str, str]) -> None:
    """Bring one entry into the tables."""
    height, data = int(entry["height"]), json.loads(entry["data"])
    match entry["kind"]:
        case "transaction":
            index = data["transaction_index"]
            rows = [
                (height, index, log["log_position"], log["address"], log.get("topic0"))
                for log in data["logs"]
            ]
            database.executemany("INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)", rows)
        case "block":  # all transactions of the block came before it
            database.execute("INSERT OR REPLACE INTO blocks VALUES (?, ?)", (height, entry["hash"]))
        case "retract":  # the block has left the chain: undo it
            database.execute("DELETE FROM blocks WHERE height = ?", (height,))
            database.execute("DELETE FROM events WHERE height = ?", (height,))
            print(f"retracted block {height}")


def read(server: Any, stream: str, after: str) -> list[tuple[str, dict[str, str]]]:
    """Read entries: those that were not acknowledged (`0`), or new ones (`>`)."""
    answer = server.xreadgroup(GROUP, CONSUMER, {stream: after}, count=500, block=1000)
    return answer[0][1] if answer else []


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("stream")
    parser.add_argument("--blocks", type=int, help="Stop once there are this many blocks.")
    options = parser.parse_args()
    server = redis.Redis.from_url(options.url, decode_responses=True, protocol=2)
    database = sqlite3.connect("events.db")
    database.executescript(TABLES)
    try:
        server.xgroup_create(options.stream, GROUP, id="0", mkstream=True)
    except redis.ResponseError:
        print("resuming")  # the group exists
    after = "0"
    while True:
        entries = read(server, options.stream, after)
        with database:
            for _, entry in entries:
                apply(database, entry)
        if entries:  # only now: what is not committed must be delivered again
            server.xack(options.stream, GROUP, *[id_ for id_, _ in entries])
        elif after == "0":
            after = ">"
        (blocks,) = database.execute("SELECT count(*) FROM blocks").fetchone()
        if blocks == options.blocks:
            break
    (events,) = database.execute("SELECT count(*) FROM events").fetchone()
    print(f"{blocks:,} blocks, {events:,} events")


if __name__ == "__main__":
    main()
