//! The columns of stored tables, by name and type.

use arrow_array::{Array, BinaryArray, BooleanArray, FixedSizeBinaryArray, RecordBatch};
use arrow_array::{StringArray, UInt64Array};

use crate::row_values::text;

/// A type of column: how to find it in a table, and how to read its values.
pub trait Column<'a>: Sized {
    /// `None` if there is no such column of this type.
    fn of(rows: &'a RecordBatch, name: &str) -> Option<Self>;
}

/// The bytes of all texts and byte strings in a table.
pub fn variable_size(rows: &RecordBatch) -> usize {
    let size = |offsets: &[i32]| match offsets {
        [first, .., last] => (last - first) as usize,
        _ => 0,
    };
    let sizes = rows.columns().iter().map(|it| {
        let bytes = it
            .as_any()
            .downcast_ref::<BinaryArray>()
            .map(BinaryArray::value_offsets);
        let text = it
            .as_any()
            .downcast_ref::<StringArray>()
            .map(StringArray::value_offsets);
        bytes.or(text).map_or(0, size)
    });
    sizes.sum()
}

macro_rules! column_types {
    ($($name:ident $array:ident),*) => {$(
        #[derive(Clone, Copy)]
        pub struct $name<'a>(&'a $array);

        impl<'a> Column<'a> for $name<'a> {
            fn of(rows: &'a RecordBatch, name: &str) -> Option<Self> {
                rows.column_by_name(name)?.as_any().downcast_ref().map(Self)
            }
        }
    )*};
}

column_types!(Int UInt64Array, Bool BooleanArray, Bytes BinaryArray, Text StringArray);

#[derive(Clone, Copy)]
pub struct Fixed<'a, const N: usize>(&'a FixedSizeBinaryArray);

impl<'a, const N: usize> Column<'a> for Fixed<'a, N> {
    fn of(rows: &'a RecordBatch, name: &str) -> Option<Self> {
        let array: &FixedSizeBinaryArray = rows.column_by_name(name)?.as_any().downcast_ref()?;
        (array.value_length() as usize == N).then_some(Self(array))
    }
}

impl<'a> Int<'a> {
    pub fn get(self, row: usize) -> Option<u64> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }

    /// All values, if none is null.
    pub fn all(self) -> Option<&'a [u64]> {
        (self.0.null_count() == 0).then(|| &self.0.values()[..])
    }
}

impl Bool<'_> {
    pub fn get(self, row: usize) -> Option<bool> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

impl<'a> Bytes<'a> {
    pub fn get(self, row: usize) -> Option<&'a [u8]> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

impl<'a> Text<'a> {
    pub fn get(self, row: usize) -> Option<&'a [u8]> {
        self.0.is_valid(row).then(|| text(self.0, row))
    }
}

impl<const N: usize> Fixed<'_, N> {
    pub fn get(self, row: usize) -> Option<[u8; N]> {
        self.0
            .is_valid(row)
            .then(|| self.0.value(row).try_into().ok())?
    }
}

/// Declare the columns of a table that answers are restored from.
macro_rules! columns {
    ($table:ident { $($field:ident $name:literal $type:ident $(<$size:literal>)?,)* }) => {
        pub struct $table<'a> {
            $(pub $field: $type<'a $(, $size)?>,)*
        }

        impl<'a> $table<'a> {
            /// `None` if a column is missing or has another type.
            pub fn of(rows: &'a RecordBatch) -> Option<Self> {
                Some(Self { $($field: Column::of(rows, $name)?,)* })
            }
        }
    };
}

columns!(BlockColumns {
    number "block_number" Int,
    timestamp "block_timestamp" Int,
    hash "hash" Fixed<32>,
    parent_hash "parent_hash" Fixed<32>,
    sha3_uncles "sha3_uncles" Fixed<32>,
    state_root "state_root" Fixed<32>,
    transactions_root "transactions_root" Fixed<32>,
    receipts_root "receipts_root" Fixed<32>,
    miner "miner" Fixed<20>,
    gas_limit "gas_limit" Int,
    gas_used "gas_used" Int,
    extra_data "extra_data" Bytes,
    uncles "uncles" Text,
    base_fee_per_gas "base_fee_per_gas" Fixed<32>,
    difficulty "difficulty" Fixed<32>,
    total_difficulty "total_difficulty" Fixed<32>,
    size "size" Int,
    blob_gas_used "blob_gas_used" Int,
    excess_blob_gas "excess_blob_gas" Int,
    slot_number "slot_number" Int,
    l1_block_number "l1_block_number" Int,
    send_count "send_count" Int,
    nonce "nonce" Fixed<8>,
    mix_hash "mix_hash" Fixed<32>,
    withdrawals_root "withdrawals_root" Fixed<32>,
    parent_beacon_block_root "parent_beacon_block_root" Fixed<32>,
    requests_hash "requests_hash" Fixed<32>,
    block_access_list_hash "block_access_list_hash" Fixed<32>,
    send_root "send_root" Fixed<32>,
    logs_bloom "logs_bloom" Fixed<256>,
    transaction_count "transaction_count" Int,
    log_count "log_count" Int,
    withdrawal_count "withdrawal_count" Int,
    extra "extra" Text,
});

columns!(TransactionColumns {
    block_number "block_number" Int,
    transaction_index "transaction_index" Int,
    chain_id "chain_id" Int,
    hash "hash" Fixed<32>,
    kind "type" Int,
    from "from_address" Fixed<20>,
    to "to_address" Fixed<20>,
    nonce "nonce" Int,
    gas "gas" Int,
    value "value" Fixed<32>,
    input "input" Bytes,
    gas_price "gas_price" Fixed<32>,
    max_fee_per_gas "max_fee_per_gas" Fixed<32>,
    max_priority_fee_per_gas "max_priority_fee_per_gas" Fixed<32>,
    max_fee_per_blob_gas "max_fee_per_blob_gas" Fixed<32>,
    access_list "access_list" Text,
    blob_versioned_hashes "blob_versioned_hashes" Text,
    authorization_list "authorization_list" Text,
    v "v" Int,
    r "r" Fixed<32>,
    s "s" Fixed<32>,
    source_hash "source_hash" Fixed<32>,
    mint "mint" Fixed<32>,
    is_system_tx "is_system_tx" Bool,
    status "status" Int,
    root "root" Fixed<32>,
    gas_used "gas_used" Int,
    cumulative_gas_used "cumulative_gas_used" Int,
    effective_gas_price "effective_gas_price" Fixed<32>,
    contract_address "contract_address" Fixed<20>,
    blob_gas_used "blob_gas_used" Int,
    blob_gas_price "blob_gas_price" Fixed<32>,
    l1_fee "l1_fee" Fixed<32>,
    l1_gas_price "l1_gas_price" Fixed<32>,
    l1_gas_used "l1_gas_used" Int,
    deposit_nonce "deposit_nonce" Int,
    deposit_receipt_version "deposit_receipt_version" Int,
    gas_used_for_l1 "gas_used_for_l1" Int,
    l1_block_number "l1_block_number" Int,
    extra "extra" Text,
});

columns!(LogColumns {
    transaction_index "transaction_index" Int,
    transaction_hash "transaction_hash" Fixed<32>,
    log_index "log_index" Int,
    address "address" Fixed<20>,
    topic0 "topic0" Fixed<32>,
    topic1 "topic1" Fixed<32>,
    topic2 "topic2" Fixed<32>,
    topic3 "topic3" Fixed<32>,
    data "data" Bytes,
    extra "extra" Text,
});

columns!(WithdrawalColumns {
    index "withdrawal_index" Int,
    validator_index "validator_index" Int,
    address "address" Fixed<20>,
    amount "amount" Int,
    extra "extra" Text,
});
