//! The table `blocks`.

use crate::columns::{Columns, Kind};
use crate::model::{Answer, Transactions};
use crate::parse::write_object;
use crate::tables::{Accepted, hashes_text};

pub fn columns(blocks: &[Accepted], chain_id: u64) -> Columns {
    let all = || blocks.iter().map(|it| &it.answer.block);
    let mut add = Columns::default();
    add.int("chain_id", all().map(|_| chain_id));
    add.int("block_number", all().map(|it| it.number));
    add.int("block_timestamp", all().map(|it| it.timestamp));
    add.fixed("hash", Kind::Hash, all().map(|it| &it.hash));
    add.fixed("parent_hash", Kind::Hash, all().map(|it| &it.parent_hash));
    add.fixed("miner", Kind::Address, all().map(|it| &it.miner));
    add.int("gas_limit", all().map(|it| it.gas_limit));
    add.int("gas_used", all().map(|it| it.gas_used));
    add.optional_u256(
        "base_fee_per_gas",
        all().map(|it| it.base_fee_per_gas.as_ref()),
    );
    add.optional_u256("difficulty", all().map(|it| it.difficulty.as_ref()));
    add.optional_u256(
        "total_difficulty",
        all().map(|it| it.total_difficulty.as_ref()),
    );
    add.optional_int("size", all().map(|it| it.size));
    let extra_data = blocks
        .iter()
        .map(|it| it.answer.bytes(it.answer.block.extra_data));
    add.bytes("extra_data", extra_data);
    add.optional_fixed("nonce", Kind::Nonce, all().map(|it| it.nonce.as_ref()));
    add.optional_fixed("mix_hash", Kind::Hash, all().map(|it| it.mix_hash.as_ref()));
    add.fixed("sha3_uncles", Kind::Hash, all().map(|it| &it.sha3_uncles));
    add.fixed("state_root", Kind::Hash, all().map(|it| &it.state_root));
    add.fixed(
        "transactions_root",
        Kind::Hash,
        all().map(|it| &it.transactions_root),
    );
    add.fixed(
        "receipts_root",
        Kind::Hash,
        all().map(|it| &it.receipts_root),
    );
    add.optional_fixed(
        "logs_bloom",
        Kind::Bloom,
        all().map(|it| it.logs_bloom.as_deref()),
    );
    let withdrawals_roots = all().map(|it| it.withdrawals_root.as_ref());
    add.optional_fixed("withdrawals_root", Kind::Hash, withdrawals_roots);
    let beacon_roots = all().map(|it| it.parent_beacon_block_root.as_ref());
    add.optional_fixed("parent_beacon_block_root", Kind::Hash, beacon_roots);
    add.optional_fixed(
        "requests_hash",
        Kind::Hash,
        all().map(|it| it.requests_hash.as_ref()),
    );
    let list_hashes = all().map(|it| it.block_access_list_hash.as_ref());
    add.optional_fixed("block_access_list_hash", Kind::Hash, list_hashes);
    add.optional_int("blob_gas_used", all().map(|it| it.blob_gas_used));
    add.optional_int("excess_blob_gas", all().map(|it| it.excess_blob_gas));
    add.optional_int("slot_number", all().map(|it| it.slot_number));
    add.json("uncles", all().map(|it| hashes_text(&it.uncles)));
    add.optional_int("l1_block_number", all().map(|it| it.l1_block_number));
    add.optional_int("send_count", all().map(|it| it.send_count));
    add.optional_fixed(
        "send_root",
        Kind::Hash,
        all().map(|it| it.send_root.as_ref()),
    );
    add.int(
        "transaction_count",
        all().map(|it| it.transactions.len() as u64),
    );
    let logs = |it: &Accepted| {
        it.answer
            .receipts
            .is_some()
            .then_some(it.answer.logs.len() as u64)
    };
    add.optional_int("log_count", blocks.iter().map(logs));
    let withdrawals = all().map(|it| it.withdrawals.as_ref().map(|rows| rows.len() as u64));
    add.optional_int("withdrawal_count", withdrawals);
    add.optional_int("transfer_count", all().map(|_| None));
    add.optional_json("extra", blocks.iter().map(|it| block_extra(&it.answer)));
    add
}

fn block_extra(answer: &Answer) -> Option<Vec<u8>> {
    let keys = answer.block.extra.iter();
    let mut members: Vec<_> = keys
        .map(|it| (answer.bytes(it.key), answer.bytes(it.value)))
        .collect();
    let mut text = Vec::new();
    write_object(&mut text, &mut members);
    (!members.is_empty()).then_some(text)
}

impl Transactions {
    fn len(&self) -> usize {
        match self {
            Self::Full(rows) => rows.len(),
            Self::Hashes(hashes) => hashes.len(),
            Self::Counted(count) => *count,
        }
    }
}
