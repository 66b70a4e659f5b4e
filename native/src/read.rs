//! Read blocks: parse, check and decode the answers for each, apart from all others.
//!
//! `docs/reference/answers.md` defines the phases, and which error the first one that fails gives.

#[cfg(test)]
mod tests;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::checks::check;
use crate::completion::complete;
use crate::extras::{KeptKeys, write_extras};
use crate::json::Fault;
use crate::model::{Answer, Hash, RangeLogs};
use crate::parse::{parse_block, parse_range_logs, parse_receipts};
use crate::placement::{misplaced, pair};
use crate::tables::{Accepted, table};
use crate::verdict::{CheckSet, Network, Proof, Question, Refusal};

/// The arena of a block has 32-bit positions, and holds at most three copies of its answers.
const MOST_BYTES: usize = 1 << 30;

/// The answers for one block, as they were received.
pub struct RawBlock<'a> {
    pub height: u64,
    pub block: &'a [u8],
    pub receipts: Option<&'a [u8]>,
    pub logs: Option<&'a [u8]>,
    pub other_logs: Option<&'a [u8]>,
    /// Whether to keep the keys without a column.
    pub full: bool,
    /// The checks that the network supports at this height.
    pub supported: CheckSet,
    pub anchor: Option<Hash>,
}

impl RawBlock<'_> {
    /// The number of bytes of all answers.
    fn size(&self) -> usize {
        let others = [self.receipts, self.logs, self.other_logs];
        self.block.len()
            + others
                .iter()
                .flatten()
                .map(|text| text.len())
                .sum::<usize>()
    }
}

/// What to read from each block, and how to check it.
pub struct Wanted<'a> {
    /// Whether blocks have only the hashes of their transactions, and no receipts.
    pub light: bool,
    pub network: Network,
    pub asked: CheckSet,
    pub chain_id: u64,
    pub tables: Vec<&'a str>,
}

/// A block that was accepted.
#[derive(Debug)]
pub struct Good {
    pub height: u64,
    pub hash: Hash,
    pub parent_hash: Hash,
    pub proof: Proof,
}

/// What came of some blocks.
#[derive(Debug, Default)]
pub struct Reading<'a> {
    /// The wanted tables; none if no block was accepted.
    pub tables: Vec<(&'a str, RecordBatch)>,
    pub good: Vec<Good>,
    pub refused: Vec<(u64, Refusal)>,
    /// Whether an accepted block has a key without a column.
    pub has_extra: bool,
}

/// Read some blocks. An error means that an answer or a column is too long.
pub fn read<'a>(raws: &[RawBlock], wanted: &Wanted<'a>) -> Result<Reading<'a>, ArrowError> {
    if let Some(raw) = raws.iter().find(|raw| raw.size() > MOST_BYTES) {
        return Err(ArrowError::OffsetOverflowError(raw.size()));
    }
    let mut reading = Reading::default();
    let mut accepted = Vec::with_capacity(raws.len());
    for raw in raws {
        match read_block(raw, wanted) {
            Ok((block, proof, has_extra)) => {
                let (height, it) = (raw.height, &block.answer.block);
                let (hash, parent_hash) = (it.hash, it.parent_hash);
                reading.good.push(Good {
                    height,
                    hash,
                    parent_hash,
                    proof,
                });
                reading.has_extra |= has_extra;
                accepted.push(block);
            }
            Err(refusal) => reading.refused.push((raw.height, refusal)),
        }
    }
    if !accepted.is_empty() {
        for &name in &wanted.tables {
            if let Some(rows) = table(name, &accepted, wanted.chain_id) {
                reading.tables.push((name, rows?));
            }
        }
    }
    Ok(reading)
}

fn read_block(raw: &RawBlock, wanted: &Wanted) -> Result<(Accepted, Proof, bool), Refusal> {
    let mut kept = KeptKeys::default();
    let mut answer = parse(raw, wanted.light, &mut kept).map_err(malformed)?;
    if answer.block.number != raw.height {
        let found = answer.block.number;
        return Err(Refusal::BadAnswer(format!(
            "the node answered with block {found}"
        )));
    }
    let pairs = pair(&answer);
    let kept = raw.full.then_some(&kept);
    let write = |pairs| write_extras(&mut answer, kept, pairs, wanted.chain_id);
    let has_extra = pairs.as_ref().is_some_and(write);
    let question = Question {
        height: raw.height,
        network: wanted.network,
        asked: wanted.asked,
        supported: raw.supported,
        anchor: raw.anchor,
    };
    complete(&mut answer, &question);
    let proof = check(&answer, &question)?;
    let Some(pairs) = pairs else {
        let problem = "a receipt belongs to no transaction of the block, or is out of order";
        return Err(Refusal::BadAnswer(problem.into()));
    };
    match misplaced(&answer) {
        Some(problem) => Err(Refusal::BadAnswer(problem)),
        None => Ok((Accepted { answer, pairs }, proof, has_extra)),
    }
}

fn parse<'a>(raw: &RawBlock<'a>, light: bool, kept: &mut KeptKeys<'a>) -> Result<Answer, Fault> {
    let mut answer = Answer::default();
    answer.arena.reserve(raw.size() / 2);
    parse_block(raw.block, &mut answer, light, raw.full, &mut kept.block)?;
    if light {
        return Ok(answer);
    }
    if let Some(text) = raw.receipts {
        let (receipts, logs) = (&mut kept.receipts, &mut kept.logs);
        parse_receipts(text, &mut answer, raw.full, receipts, logs)?;
    }
    if let Some(text) = raw.logs {
        let logs = parse_range_logs(text, &mut answer.arena)?;
        let others = raw
            .other_logs
            .map(|text| parse_range_logs(text, &mut answer.arena));
        answer.range = Some(RangeLogs {
            logs,
            others: others.transpose()?,
        });
    }
    Ok(answer)
}

fn malformed(fault: Fault) -> Refusal {
    Refusal::BadAnswer(format!("an answer cannot be read: {fault}"))
}
