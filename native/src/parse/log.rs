//! Parse logs: those of a receipt, and those of `eth_getLogs`.

use crate::forms::{Bytes, U64};
use crate::json::Read;
use crate::model::{Log, RangeLog};
use crate::parse::keys::{Order, keys};
use crate::parse::object::{Flaw, KeptRows, Parser};
use crate::parse::values::flaw_unless;

keys!(LogKey, "log",
    {Address "address", Topics "topics", Data "data", LogIndex "logIndex"},
    {Removed "removed"},
    copies: [Removed]);

keys!(RangeKey, "log",
    {Address "address", Topics "topics", Data "data", LogIndex "logIndex", BlockHash "blockHash",
     BlockNumber "blockNumber", TransactionHash "transactionHash",
     TransactionIndex "transactionIndex"},
    {Removed "removed"},
    copies: []);

/// The order of the keys of logs.
#[derive(Default)]
pub struct LogOrder<'a>(Order<'a, LogKey>);

/// Parse the logs of `eth_getLogs`; keys without a column are never kept.
pub fn parse_range_logs(text: &[u8], arena: &mut Vec<u8>) -> Read<Vec<RangeLog>> {
    let mut parser = Parser::new(text, arena, false)?;
    let (mut order, mut kept, mut logs) = (Order::default(), KeptRows::default(), Vec::new());
    let flaw = parser.list(|it| {
        let mut row = RangeLog::default();
        let flaw = it.range_log(&mut order, &mut kept, &mut row)?;
        logs.push(row);
        Ok(flaw)
    })?;
    parser.finish(flaw)?;
    Ok(logs)
}

impl<'a> Parser<'a, '_> {
    pub fn log(
        &mut self,
        order: &mut LogOrder<'a>,
        kept: &mut KeptRows<'a>,
        row: &mut Log,
    ) -> Read<Flaw> {
        self.object(&mut order.0, kept, |it, key| match key {
            LogKey::Address => it.required::<Bytes<20>>(&mut row.address),
            LogKey::Topics => it.topics(row),
            LogKey::Data => it.required_data(&mut row.data),
            LogKey::LogIndex => it.required::<U64>(&mut row.log_index),
            LogKey::Removed => it.removed(row),
        })
    }

    fn range_log(
        &mut self,
        order: &mut Order<'a, RangeKey>,
        kept: &mut KeptRows<'a>,
        row: &mut RangeLog,
    ) -> Read<Flaw> {
        self.object(order, kept, |it, key| match key {
            RangeKey::Address => it.required::<Bytes<20>>(&mut row.log.address),
            RangeKey::Topics => it.topics(&mut row.log),
            RangeKey::Data => it.required_data(&mut row.log.data),
            RangeKey::LogIndex => it.required::<U64>(&mut row.log.log_index),
            RangeKey::BlockHash => it.required::<Bytes<32>>(&mut row.block_hash),
            RangeKey::BlockNumber => it.required::<U64>(&mut row.block_number),
            RangeKey::TransactionHash => it.required::<Bytes<32>>(&mut row.transaction_hash),
            RangeKey::TransactionIndex => it.required::<U64>(&mut row.transaction_index),
            RangeKey::Removed => it.removed(&mut row.log),
        })
    }

    fn topics(&mut self, row: &mut Log) -> Read<bool> {
        let mut count = 0;
        let mut surplus = [0; 32];
        let flaw = self.list(|it| {
            let topic = row.topics.get_mut(count).unwrap_or(&mut surplus);
            count += 1;
            Ok(flaw_unless(it.required::<Bytes<32>>(topic)?))
        })?;
        row.topic_count = count.min(row.topics.len()) as u8;
        Ok(flaw.is_none() && count <= row.topics.len())
    }

    fn removed(&mut self, row: &mut Log) -> Read<bool> {
        row.removed = self.json.boolean()?;
        Ok(true)
    }
}
