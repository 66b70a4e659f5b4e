//! A block as it was parsed: every value decoded once, from hex to numbers and bytes.
//!
//! `docs/reference/answers.md` defines the fields and their forms. Values of variable length are
//! slices of one arena, so that a block costs few allocations.

pub type Address = [u8; 20];
pub type Hash = [u8; 32];
/// A 256-bit number, big-endian, so that bytes compare as numbers do.
pub type U256 = [u8; 32];
pub type Bloom = [u8; 256];

/// Some bytes of the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    pub start: u32,
    pub len: u32,
}

impl Slice {
    /// Positions of an arena, which is shorter than 4 GiB: `read` accepts no longer answers.
    pub fn between(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            len: (end - start) as u32,
        }
    }

    pub fn of(self, arena: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &arena[start..start + self.len as usize]
    }
}

/// The answers for one block.
#[derive(Debug, Default)]
pub struct Answer {
    pub arena: Vec<u8>,
    pub block: Block,
    /// `None`: receipts were not requested.
    pub receipts: Option<Vec<Receipt>>,
    /// The logs of all receipts, in order.
    pub logs: Vec<Log>,
    /// Logs of `eth_getLogs`, if they were requested instead of receipts.
    pub range: Option<RangeLogs>,
}

impl Answer {
    pub fn bytes(&self, slice: Slice) -> &[u8] {
        slice.of(&self.arena)
    }

    pub fn logs_of(&self, receipt: &Receipt) -> &[Log] {
        let start = receipt.logs.start as usize;
        &self.logs[start..start + receipt.logs.len as usize]
    }
}

#[derive(Debug, Default)]
pub struct Block {
    pub number: u64,
    pub timestamp: u64,
    pub hash: Hash,
    pub parent_hash: Hash,
    pub sha3_uncles: Hash,
    pub state_root: Hash,
    pub transactions_root: Hash,
    pub receipts_root: Hash,
    pub miner: Address,
    pub gas_limit: u64,
    pub gas_used: u64,
    pub extra_data: Slice,
    pub uncles: Vec<Hash>,
    pub transactions: Transactions,
    pub withdrawals: Option<Vec<Withdrawal>>,
    pub base_fee_per_gas: Option<U256>,
    pub difficulty: Option<U256>,
    pub total_difficulty: Option<U256>,
    pub size: Option<u64>,
    pub blob_gas_used: Option<u64>,
    pub excess_blob_gas: Option<u64>,
    pub slot_number: Option<u64>,
    pub l1_block_number: Option<u64>,
    pub send_count: Option<u64>,
    pub nonce: Option<[u8; 8]>,
    pub mix_hash: Option<Hash>,
    pub withdrawals_root: Option<Hash>,
    pub parent_beacon_block_root: Option<Hash>,
    pub requests_hash: Option<Hash>,
    pub block_access_list_hash: Option<Hash>,
    pub send_root: Option<Hash>,
    pub logs_bloom: Option<Box<Bloom>>,
    /// The keys without a column, if the block was read in full.
    pub extra: Vec<ExtraKey>,
}

/// A key without a column: its name, decoded, and its value, as the node sent it.
#[derive(Clone, Copy, Debug)]
pub struct ExtraKey {
    pub key: Slice,
    pub value: Slice,
}

#[derive(Debug)]
pub enum Transactions {
    Full(Vec<Transaction>),
    /// A light block has only their hashes.
    Hashes(Vec<Hash>),
    /// The row of a light block has only their number.
    Counted(usize),
}

impl Default for Transactions {
    fn default() -> Self {
        Self::Hashes(Vec::new())
    }
}

#[derive(Debug, Default)]
pub struct Transaction {
    pub hash: Hash,
    pub block_hash: Hash,
    pub block_number: u64,
    pub transaction_index: u64,
    pub from: Address,
    pub to: Option<Address>,
    pub nonce: u64,
    pub gas: u64,
    /// As the node gave it; completion fills it in.
    pub kind: Option<u8>,
    pub value: Option<U256>,
    pub gas_price: Option<U256>,
    pub max_fee_per_gas: Option<U256>,
    pub max_priority_fee_per_gas: Option<U256>,
    pub max_fee_per_blob_gas: Option<U256>,
    pub mint: Option<U256>,
    pub input: Option<Slice>,
    pub v: Option<u64>,
    pub y_parity: Option<u64>,
    pub r: Option<U256>,
    pub s: Option<U256>,
    pub chain_id: Option<U256>,
    pub access_list: Option<AccessList>,
    pub authorization_list: Option<AuthorizationList>,
    pub blob_versioned_hashes: Option<Vec<Hash>>,
    pub source_hash: Option<Hash>,
    pub is_system_tx: Option<bool>,
    /// The column `extra`, as JSON; empty if it is null. Written after parsing, by `extras`.
    pub extra: Slice,
}

/// A list that is stored as JSON: the text of its column, and its items. The text of a list without
/// items may be empty, which stands for `[]`.
#[derive(Debug, Default)]
pub struct AccessList {
    pub text: Slice,
    pub entries: Vec<AccessEntry>,
}

#[derive(Debug, Default)]
pub struct AccessEntry {
    pub address: Address,
    pub storage_keys: Vec<Hash>,
}

#[derive(Debug, Default)]
pub struct AuthorizationList {
    pub text: Slice,
    pub entries: Vec<Authorization>,
}

#[derive(Debug, Default)]
pub struct Authorization {
    pub chain_id: U256,
    pub address: Address,
    pub nonce: u64,
    /// `yParity`, or `v` if there is none.
    pub parity: u64,
    pub r: U256,
    pub s: U256,
}

#[derive(Debug, Default)]
pub struct Receipt {
    pub block_hash: Hash,
    pub block_number: u64,
    pub transaction_hash: Hash,
    pub transaction_index: u64,
    pub cumulative_gas_used: u64,
    /// Positions in `Answer::logs`.
    pub logs: Slice,
    pub gas_used: Option<u64>,
    pub status: Option<u64>,
    pub blob_gas_used: Option<u64>,
    pub deposit_nonce: Option<u64>,
    pub deposit_receipt_version: Option<u64>,
    pub gas_used_for_l1: Option<u64>,
    pub l1_block_number: Option<u64>,
    pub effective_gas_price: Option<U256>,
    pub blob_gas_price: Option<U256>,
    pub l1_fee: Option<U256>,
    pub l1_gas_price: Option<U256>,
    pub l1_gas_used: Option<u64>,
    pub contract_address: Option<Address>,
    pub root: Option<Hash>,
    pub logs_bloom: Option<Box<Bloom>>,
    pub kind: Option<u8>,
    /// Fields that are too rare for a column, in the order of `parse::TEXTS`.
    pub texts: [Option<Slice>; 7],
    pub timeboosted: Option<bool>,
}

#[derive(Debug, Default)]
pub struct Log {
    pub address: Address,
    pub topics: [Hash; 4],
    pub topic_count: u8,
    pub data: Slice,
    pub log_index: u64,
    pub removed: bool,
    /// The column `extra`, as JSON; empty if it is null. Written after parsing, by `extras`.
    pub extra: Slice,
}

impl Log {
    pub fn topics(&self) -> &[Hash] {
        &self.topics[..usize::from(self.topic_count)]
    }
}

/// The logs of a block from a node that does not offer receipts.
#[derive(Debug, Default)]
pub struct RangeLogs {
    pub logs: Vec<RangeLog>,
    /// The same from a second endpoint, if one answered.
    pub others: Option<Vec<RangeLog>>,
}

/// A log of `eth_getLogs`, with its own reference to its block and transaction.
#[derive(Debug, Default)]
pub struct RangeLog {
    pub log: Log,
    pub block_hash: Hash,
    pub block_number: u64,
    pub transaction_hash: Hash,
    pub transaction_index: u64,
}

#[derive(Debug, Default)]
pub struct Withdrawal {
    pub index: u64,
    pub validator_index: u64,
    pub address: Address,
    pub amount: u64,
    /// The column `extra`, as JSON; empty if it is null.
    pub extra: Slice,
}
