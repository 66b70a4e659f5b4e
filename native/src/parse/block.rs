//! Parse a block: in full, or light, with the hashes of its transactions.

use crate::forms::{Bytes, U64, Word};
use crate::json::Read;
use crate::model::{Answer, Block, Transaction, Transactions, Withdrawal};
use crate::parse::keys::{Order, keys};
use crate::parse::object::{Flaw, KeptRows, Parser};
use crate::parse::transaction::TransactionOrder;

keys!(BlockKey, "block",
    {Number "number", Timestamp "timestamp", Hash "hash", ParentHash "parentHash",
     Sha3Uncles "sha3Uncles", StateRoot "stateRoot", TransactionsRoot "transactionsRoot",
     ReceiptsRoot "receiptsRoot", Miner "miner", GasLimit "gasLimit", GasUsed "gasUsed",
     ExtraData "extraData", Uncles "uncles", Transactions "transactions"},
    {Withdrawals "withdrawals", BaseFeePerGas "baseFeePerGas", Difficulty "difficulty",
     TotalDifficulty "totalDifficulty", Size "size", BlobGasUsed "blobGasUsed",
     ExcessBlobGas "excessBlobGas", SlotNumber "slotNumber", L1BlockNumber "l1BlockNumber",
     SendCount "sendCount", Nonce "nonce", MixHash "mixHash",
     WithdrawalsRoot "withdrawalsRoot", ParentBeaconBlockRoot "parentBeaconBlockRoot",
     RequestsHash "requestsHash", BlockAccessListHash "blockAccessListHash",
     SendRoot "sendRoot", LogsBloom "logsBloom"},
    copies: []);

keys!(WithdrawalKey, "withdrawal",
    {Index "index", ValidatorIndex "validatorIndex", Address "address", Amount "amount"},
    {},
    copies: []);

/// The keys without a column in the answer for a block.
#[derive(Default)]
pub struct KeptBlock<'a> {
    pub block: KeptRows<'a>,
    pub transactions: KeptRows<'a>,
    pub withdrawals: KeptRows<'a>,
}

/// Parse a block into an answer. Keys without a column are kept if it is read in full.
pub fn parse_block<'a>(
    text: &'a [u8],
    answer: &mut Answer,
    light: bool,
    full: bool,
    kept: &mut KeptBlock<'a>,
) -> Read<()> {
    let mut parser = Parser::new(text, &mut answer.arena, full)?;
    let flaw = parser.block(&mut answer.block, light, kept)?;
    parser.finish(flaw)
}

impl<'a> Parser<'a, '_> {
    fn block(&mut self, row: &mut Block, light: bool, kept: &mut KeptBlock<'a>) -> Read<Flaw> {
        use BlockKey as Key;
        let mut order = Order::default();
        let (kept_transactions, kept_withdrawals) = (&mut kept.transactions, &mut kept.withdrawals);
        self.object(&mut order, &mut kept.block, |it, key| match key {
            Key::Number => it.required::<U64>(&mut row.number),
            Key::Timestamp => it.required::<U64>(&mut row.timestamp),
            Key::Hash => it.required::<Bytes<32>>(&mut row.hash),
            Key::ParentHash => it.required::<Bytes<32>>(&mut row.parent_hash),
            Key::Sha3Uncles => it.required::<Bytes<32>>(&mut row.sha3_uncles),
            Key::StateRoot => it.required::<Bytes<32>>(&mut row.state_root),
            Key::TransactionsRoot => it.required::<Bytes<32>>(&mut row.transactions_root),
            Key::ReceiptsRoot => it.required::<Bytes<32>>(&mut row.receipts_root),
            Key::Miner => it.required::<Bytes<20>>(&mut row.miner),
            Key::GasLimit => it.required::<U64>(&mut row.gas_limit),
            Key::GasUsed => it.required::<U64>(&mut row.gas_used),
            Key::ExtraData => it.required_data(&mut row.extra_data),
            Key::Uncles => it.hashes(&mut row.uncles),
            Key::Transactions if light => {
                let mut hashes = Vec::new();
                let is_good = it.hashes(&mut hashes)?;
                row.transactions = Transactions::Hashes(hashes);
                Ok(is_good)
            }
            Key::Transactions => it.transactions(&mut row.transactions, kept_transactions),
            Key::Withdrawals => it.withdrawals(&mut row.withdrawals, kept_withdrawals),
            Key::BaseFeePerGas => it.optional::<Word>(&mut row.base_fee_per_gas),
            Key::Difficulty => it.optional::<Word>(&mut row.difficulty),
            Key::TotalDifficulty => it.optional::<Word>(&mut row.total_difficulty),
            Key::Size => it.optional::<U64>(&mut row.size),
            Key::BlobGasUsed => it.optional::<U64>(&mut row.blob_gas_used),
            Key::ExcessBlobGas => it.optional::<U64>(&mut row.excess_blob_gas),
            Key::SlotNumber => it.optional::<U64>(&mut row.slot_number),
            Key::L1BlockNumber => it.optional::<U64>(&mut row.l1_block_number),
            Key::SendCount => it.optional::<U64>(&mut row.send_count),
            Key::Nonce => it.optional::<Bytes<8>>(&mut row.nonce),
            Key::MixHash => it.optional::<Bytes<32>>(&mut row.mix_hash),
            Key::WithdrawalsRoot => it.optional::<Bytes<32>>(&mut row.withdrawals_root),
            Key::ParentBeaconBlockRoot => {
                it.optional::<Bytes<32>>(&mut row.parent_beacon_block_root)
            }
            Key::RequestsHash => it.optional::<Bytes<32>>(&mut row.requests_hash),
            Key::BlockAccessListHash => it.optional::<Bytes<32>>(&mut row.block_access_list_hash),
            Key::SendRoot => it.optional::<Bytes<32>>(&mut row.send_root),
            Key::LogsBloom => it.optional_bloom(&mut row.logs_bloom),
        })
    }

    fn transactions(&mut self, into: &mut Transactions, kept: &mut KeptRows<'a>) -> Read<bool> {
        kept.truncate(0);
        let (mut order, mut rows) = (TransactionOrder::default(), Vec::new());
        let flaw = self.list(|it| {
            let mut row = Transaction::default();
            let flaw = it.transaction(&mut order, kept, &mut row)?;
            rows.push(row);
            Ok(flaw)
        })?;
        *into = Transactions::Full(rows);
        Ok(flaw.is_none())
    }

    fn withdrawals(
        &mut self,
        into: &mut Option<Vec<Withdrawal>>,
        kept: &mut KeptRows<'a>,
    ) -> Read<bool> {
        kept.truncate(0);
        *into = None;
        if self.json.null()? {
            return Ok(true);
        }
        let rows = into.get_or_insert_default();
        let mut order = Order::default();
        let flaw = self.list(|it| {
            let mut row = Withdrawal::default();
            let flaw = it.object(&mut order, kept, |it, key| match key {
                WithdrawalKey::Index => it.required::<U64>(&mut row.index),
                WithdrawalKey::ValidatorIndex => it.required::<U64>(&mut row.validator_index),
                WithdrawalKey::Address => it.required::<Bytes<20>>(&mut row.address),
                WithdrawalKey::Amount => it.required::<U64>(&mut row.amount),
            })?;
            rows.push(row);
            Ok(flaw)
        })?;
        Ok(flaw.is_none())
    }
}
