-- For wallets: which there are, what is planned for them, and what people say about their movements.
-- Keys are ordered by their bytes, as on SQLite, whatever the locale of the database is.

CREATE TABLE gapless.wallets (
    wallet_group TEXT COLLATE "C" NOT NULL,
    address      TEXT COLLATE "C" NOT NULL,
    label        TEXT,
    added_at     DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (wallet_group, address)
);

CREATE TABLE gapless.syncs (
    wallet_group TEXT COLLATE "C" NOT NULL,
    address      TEXT COLLATE "C" NOT NULL,
    chain_id     BIGINT NOT NULL,
    sink_id      TEXT COLLATE "C" NOT NULL,
    network      TEXT COLLATE "C" NOT NULL,
    sink         TEXT NOT NULL,
    first        BIGINT NOT NULL,
    last         BIGINT NOT NULL,
    created_at   DOUBLE PRECISION NOT NULL,
    updated_at   DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (wallet_group, address, chain_id, sink_id)
);
CREATE INDEX syncs_of_address ON gapless.syncs (address, wallet_group, chain_id, sink_id);
CREATE INDEX syncs_of_network ON gapless.syncs (network, wallet_group, address, chain_id, sink_id);

CREATE TABLE gapless.sync_passes (
    wallet_group TEXT COLLATE "C" NOT NULL,
    address      TEXT COLLATE "C" NOT NULL,
    chain_id     BIGINT NOT NULL,
    sink_id      TEXT COLLATE "C" NOT NULL,
    backfill_id  TEXT NOT NULL,
    address_set  TEXT NOT NULL,
    PRIMARY KEY (wallet_group, address, chain_id, sink_id, backfill_id)
);
CREATE INDEX syncs_of_pass ON gapless.sync_passes (backfill_id);
CREATE INDEX backfills_unsuccessful ON gapless.backfills (id) WHERE state IN ('FAILED', 'CANCELLED');

CREATE TABLE gapless.address_sets (
    id        TEXT PRIMARY KEY,
    chain_id  BIGINT NOT NULL,
    addresses BYTEA NOT NULL
);

CREATE TABLE gapless.overrides (
    wallet_group      TEXT COLLATE "C" NOT NULL,
    address           TEXT COLLATE "C" NOT NULL,
    chain_id          BIGINT NOT NULL,
    block_number      BIGINT NOT NULL,
    kind              TEXT COLLATE "C" NOT NULL,
    transaction_index BIGINT NOT NULL,
    position          BIGINT NOT NULL,
    batch_position    BIGINT NOT NULL,
    category          TEXT NOT NULL,
    note              TEXT,
    at                DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (wallet_group, address, chain_id, block_number, kind, transaction_index, position,
                 batch_position)
);

-- When chunks last ended or failed.
ALTER TABLE gapless.counts ADD COLUMN changed_at DOUBLE PRECISION NOT NULL DEFAULT 0;

-- When a backfill last joined the group, or its hook was asked for, and how long the hook waits after
-- that for more.
ALTER TABLE gapless.groups ADD COLUMN changed_at DOUBLE PRECISION NOT NULL DEFAULT 0;
ALTER TABLE gapless.groups ADD COLUMN quiet_seconds DOUBLE PRECISION NOT NULL DEFAULT 0;
