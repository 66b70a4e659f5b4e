-- For wallets: which there are, what is planned for them, and what people say about their movements.

CREATE TABLE wallets (
    wallet_group TEXT NOT NULL,
    address      TEXT NOT NULL,
    label        TEXT,
    added_at     REAL NOT NULL,
    PRIMARY KEY (wallet_group, address)
) WITHOUT ROWID;

CREATE TABLE syncs (
    wallet_group TEXT NOT NULL,
    address      TEXT NOT NULL,
    chain_id     INTEGER NOT NULL,
    sink_id      TEXT NOT NULL,
    network      TEXT NOT NULL,
    sink         TEXT NOT NULL,
    first        INTEGER NOT NULL,
    last         INTEGER NOT NULL,
    created_at   REAL NOT NULL,
    updated_at   REAL NOT NULL,
    PRIMARY KEY (wallet_group, address, chain_id, sink_id)
) WITHOUT ROWID;
CREATE INDEX syncs_of_address ON syncs (address, wallet_group, chain_id, sink_id);
CREATE INDEX syncs_of_network ON syncs (network, wallet_group, address, chain_id, sink_id);

CREATE TABLE sync_passes (
    wallet_group TEXT NOT NULL,
    address      TEXT NOT NULL,
    chain_id     INTEGER NOT NULL,
    sink_id      TEXT NOT NULL,
    backfill_id  TEXT NOT NULL,
    address_set  TEXT NOT NULL,
    PRIMARY KEY (wallet_group, address, chain_id, sink_id, backfill_id)
) WITHOUT ROWID;
CREATE INDEX syncs_of_pass ON sync_passes (backfill_id);
CREATE INDEX backfills_unsuccessful ON backfills (id) WHERE state IN ('FAILED', 'CANCELLED');

CREATE TABLE address_sets (
    id        TEXT PRIMARY KEY,
    chain_id  INTEGER NOT NULL,
    addresses BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE overrides (
    wallet_group      TEXT NOT NULL,
    address           TEXT NOT NULL,
    chain_id          INTEGER NOT NULL,
    block_number      INTEGER NOT NULL,
    kind              TEXT NOT NULL,
    transaction_index INTEGER NOT NULL,
    position          INTEGER NOT NULL,
    batch_position    INTEGER NOT NULL,
    category          TEXT NOT NULL,
    note              TEXT,
    at                REAL NOT NULL,
    PRIMARY KEY (wallet_group, address, chain_id, block_number, kind, transaction_index, position,
                 batch_position)
) WITHOUT ROWID;

-- When chunks last ended or failed.
ALTER TABLE counts ADD COLUMN changed_at REAL NOT NULL DEFAULT 0;

-- When a backfill last joined the group, or its hook was asked for, and how long the hook waits after
-- that for more.
ALTER TABLE groups ADD COLUMN changed_at REAL NOT NULL DEFAULT 0;
ALTER TABLE groups ADD COLUMN quiet_seconds REAL NOT NULL DEFAULT 0;
