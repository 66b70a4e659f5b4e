//! Parse the receipts of a block.

use crate::forms::{Bytes, Kind, L1U64, L1Word, U64, Word};
use crate::json::Read;
use crate::model::{Answer, Log, Receipt, Slice};
use crate::parse::keys::{Order, keys};
use crate::parse::log::LogOrder;
use crate::parse::object::{Flaw, KeptRows, Parser};

keys!(ReceiptKey, "receipt",
    {BlockHash "blockHash", BlockNumber "blockNumber", TransactionHash "transactionHash",
     TransactionIndex "transactionIndex", CumulativeGasUsed "cumulativeGasUsed", Logs "logs"},
    {GasUsed "gasUsed", Status "status", BlobGasUsed "blobGasUsed", DepositNonce "depositNonce",
     DepositReceiptVersion "depositReceiptVersion", GasUsedForL1 "gasUsedForL1",
     L1BlockNumber "l1BlockNumber", EffectiveGasPrice "effectiveGasPrice",
     BlobGasPrice "blobGasPrice", L1Fee "l1Fee", L1GasPrice "l1GasPrice", L1GasUsed "l1GasUsed",
     ContractAddress "contractAddress", Root "root", LogsBloom "logsBloom", Type "type",
     L1FeeScalar "l1FeeScalar", L1BaseFeeScalar "l1BaseFeeScalar",
     L1BlobBaseFee "l1BlobBaseFee", L1BlobBaseFeeScalar "l1BlobBaseFeeScalar",
     OperatorFeeScalar "operatorFeeScalar", OperatorFeeConstant "operatorFeeConstant",
     DaFootprintGasScalar "daFootprintGasScalar", Timeboosted "timeboosted"},
    copies: [BlockHash, BlockNumber, TransactionHash, TransactionIndex, LogsBloom, Type]);

/// The keys of `Receipt::texts`.
pub const TEXTS: [&str; 7] = [
    "l1FeeScalar",
    "l1BaseFeeScalar",
    "l1BlobBaseFee",
    "l1BlobBaseFeeScalar",
    "operatorFeeScalar",
    "operatorFeeConstant",
    "daFootprintGasScalar",
];

/// What the rows of an answer are appended to.
struct Rows<'a, 'o> {
    logs: &'o mut Vec<Log>,
    log_order: LogOrder<'a>,
    kept_logs: &'o mut KeptRows<'a>,
}

/// Parse receipts into an answer. Keys without a column are kept if they are read in full.
pub fn parse_receipts<'a>(
    text: &'a [u8],
    answer: &mut Answer,
    full: bool,
    kept: &mut KeptRows<'a>,
    kept_logs: &mut KeptRows<'a>,
) -> Read<()> {
    let mut parser = Parser::new(text, &mut answer.arena, full)?;
    let mut rows = Rows {
        logs: &mut answer.logs,
        log_order: LogOrder::default(),
        kept_logs,
    };
    let (mut order, mut receipts) = (Order::default(), Vec::new());
    let flaw = parser.list(|it| {
        let mut row = Receipt::default();
        let flaw = it.receipt(&mut order, kept, &mut rows, &mut row)?;
        receipts.push(row);
        Ok(flaw)
    })?;
    parser.finish(flaw)?;
    answer.receipts = Some(receipts);
    Ok(())
}

impl<'a> Parser<'a, '_> {
    fn receipt(
        &mut self,
        order: &mut Order<'a, ReceiptKey>,
        kept: &mut KeptRows<'a>,
        rows: &mut Rows<'a, '_>,
        row: &mut Receipt,
    ) -> Read<Flaw> {
        use ReceiptKey as Key;
        let start = rows.logs.len();
        self.object(order, kept, |it, key| match key {
            Key::BlockHash => it.required::<Bytes<32>>(&mut row.block_hash),
            Key::BlockNumber => it.required::<U64>(&mut row.block_number),
            Key::TransactionHash => it.required::<Bytes<32>>(&mut row.transaction_hash),
            Key::TransactionIndex => it.required::<U64>(&mut row.transaction_index),
            Key::CumulativeGasUsed => it.required::<U64>(&mut row.cumulative_gas_used),
            Key::Logs => {
                let flaw = it.logs(rows, start)?;
                row.logs = Slice::between(start, rows.logs.len());
                Ok(flaw.is_none())
            }
            Key::GasUsed => it.optional::<U64>(&mut row.gas_used),
            Key::Status => it.optional::<U64>(&mut row.status),
            Key::BlobGasUsed => it.optional::<U64>(&mut row.blob_gas_used),
            Key::DepositNonce => it.optional::<U64>(&mut row.deposit_nonce),
            Key::DepositReceiptVersion => it.optional::<U64>(&mut row.deposit_receipt_version),
            Key::GasUsedForL1 => it.optional::<U64>(&mut row.gas_used_for_l1),
            Key::L1BlockNumber => it.optional::<U64>(&mut row.l1_block_number),
            Key::EffectiveGasPrice => it.optional::<Word>(&mut row.effective_gas_price),
            Key::BlobGasPrice => it.optional::<Word>(&mut row.blob_gas_price),
            Key::L1Fee => it.optional::<L1Word>(&mut row.l1_fee),
            Key::L1GasPrice => it.optional::<L1Word>(&mut row.l1_gas_price),
            Key::L1GasUsed => it.optional::<L1U64>(&mut row.l1_gas_used),
            Key::ContractAddress => it.optional::<Bytes<20>>(&mut row.contract_address),
            Key::Root => it.optional::<Bytes<32>>(&mut row.root),
            Key::LogsBloom => it.optional_bloom(&mut row.logs_bloom),
            Key::Type => it.optional::<Kind>(&mut row.kind),
            Key::L1FeeScalar => it.optional_text(&mut row.texts[0]),
            Key::L1BaseFeeScalar => it.optional_text(&mut row.texts[1]),
            Key::L1BlobBaseFee => it.optional_text(&mut row.texts[2]),
            Key::L1BlobBaseFeeScalar => it.optional_text(&mut row.texts[3]),
            Key::OperatorFeeScalar => it.optional_text(&mut row.texts[4]),
            Key::OperatorFeeConstant => it.optional_text(&mut row.texts[5]),
            Key::DaFootprintGasScalar => it.optional_text(&mut row.texts[6]),
            Key::Timeboosted => it.optional_bool(&mut row.timeboosted),
        })
    }

    /// Read the logs of a receipt, in place of those that an earlier key of the receipt had.
    fn logs(&mut self, rows: &mut Rows<'a, '_>, start: usize) -> Read<Flaw> {
        rows.logs.truncate(start);
        rows.kept_logs.truncate(start);
        self.list(|it| {
            let mut log = Log::default();
            let flaw = it.log(&mut rows.log_order, rows.kept_logs, &mut log)?;
            rows.logs.push(log);
            Ok(flaw)
        })
    }
}
