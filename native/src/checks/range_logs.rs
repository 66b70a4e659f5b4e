//! Check logs that were fetched without receipts.
//!
//! A bloom proves that no address or topic is missing, but not that no log is. That a second endpoint
//! returns the same logs proves nothing, but no better check exists.

use super::findings::refuse;
use super::{Outcome, Subject};
use crate::bloom;
use crate::model::{Answer, RangeLog, RangeLogs};
use crate::verdict::{Check, CheckSet, Proof, Refusal};

/// Return what is proven about the logs of a block, or why it is refused.
pub fn check(it: &Subject, range: &RangeLogs) -> Result<Proof, Refusal> {
    let supported = it.question.supported;
    let mut proven = CheckSet::default();
    if supported.has(Check::Places) && places(it, &range.logs)? {
        proven.add(Check::Places);
    }
    if supported.has(Check::Bloom) && bloom(it, &range.logs)? {
        proven.add(Check::Bloom);
    }
    if agreed(it, range)? {
        proven.add(Check::Agreed);
    }
    Ok(Proof {
        proven,
        unproven: CheckSet::default(),
    })
}

/// Check that the logs name this block and transactions in it.
fn places(it: &Subject, logs: &[RangeLog]) -> Outcome {
    if logs
        .iter()
        .any(|each| each.block_hash != it.block().hash || each.log.removed)
    {
        return refuse(Check::Places, "a log belongs to another branch");
    }
    let is_known =
        |each: &RangeLog| it.hash_at(each.transaction_index) == Some(&each.transaction_hash);
    if !logs.iter().all(is_known) {
        return refuse(
            Check::Places,
            "a log names a transaction that is not in the block",
        );
    }
    Ok(true)
}

fn bloom(it: &Subject, logs: &[RangeLog]) -> Outcome {
    if it.block().logs_bloom.is_none() {
        return Ok(false);
    }
    if !have_bloom(it, logs) {
        return refuse(
            Check::Bloom,
            "its logs do not match the bloom in its header",
        );
    }
    Ok(true)
}

/// Check that a second endpoint returns the same logs.
///
/// This is not possible if there is no second endpoint, or if its logs do not match the bloom.
fn agreed(it: &Subject, range: &RangeLogs) -> Outcome {
    let Some(others) = &range.others else {
        return Ok(false);
    };
    if it.question.supported.has(Check::Bloom) && !have_bloom(it, others) {
        return Ok(false);
    }
    if !are_same(it.answer, &range.logs, others) {
        return refuse(Check::Agreed, "two endpoints return different logs");
    }
    Ok(true)
}

fn have_bloom(it: &Subject, logs: &[RangeLog]) -> bool {
    let rooted = logs
        .iter()
        .filter(|each| Some(each.transaction_hash) != it.unrooted);
    let claimed = it.block().logs_bloom.as_deref();
    claimed.is_none_or(|it| *it == bloom::of_logs(rooted.map(|each| &each.log)))
}

fn are_same(answer: &Answer, logs: &[RangeLog], others: &[RangeLog]) -> bool {
    logs.len() == others.len()
        && logs
            .iter()
            .zip(others)
            .all(|(one, two)| agree(answer, one, two))
}

/// Whether two logs are equal but for their index: honest nodes count differently, and the order of
/// the logs is compared anyway.
fn agree(answer: &Answer, one: &RangeLog, other: &RangeLog) -> bool {
    one.block_hash == other.block_hash
        && one.transaction_hash == other.transaction_hash
        && one.transaction_index == other.transaction_index
        && one.log.address == other.log.address
        && one.log.topics() == other.log.topics()
        && answer.bytes(one.log.data) == answer.bytes(other.log.data)
}
