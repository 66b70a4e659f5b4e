//! Check a block for consistency, and against what its chain committed to.
//!
//! Only a root in a header whose hash was recomputed proves that nothing is missing: in a third of
//! real blocks, dropping the last log leaves the bloom unchanged. A check that fails refuses the
//! block. A check that is not possible, for example because an encoding is unknown or receipts were
//! not requested, is reported as unproven.
//!
//! If the header hash and the receipts root are correct, the receipts are those of the chain. Gas and
//! blooms are then correct too and need not be computed.

mod consistency;
pub mod derived;
mod findings;
mod proofs;
mod range_logs;
mod senders;
pub mod state_sync;
mod subject;

use crate::model::Answer;
use crate::verdict::{Check, CheckSet, Proof, Question, Refusal};
use findings::{hex, refuse};
use subject::Subject;

/// Whether a check was possible; a refusal if it fails.
type Outcome = Result<bool, Refusal>;
type Checks = [(Check, fn(&Subject) -> Outcome)];

const PLAIN: &Checks = &[
    (Check::Height, consistency::height),
    (Check::Counts, consistency::counts),
    (Check::Places, consistency::places),
    (Check::Empty, consistency::empty),
];
const PROOFS: &Checks = &[
    (Check::HeaderHash, proofs::header),
    (Check::ReceiptsRoot, proofs::receipts),
];
const IMPLIED: &Checks = &[
    (Check::Gas, consistency::gas),
    (Check::ReceiptBlooms, consistency::receipt_blooms),
    (Check::Bloom, consistency::bloom),
];
const FURTHER: &Checks = &[
    (Check::TransactionsRoot, proofs::transactions),
    (Check::WithdrawalsRoot, proofs::withdrawals),
    (Check::Derived, derived::derived),
    (Check::Prices, derived::prices),
    (Check::LogIndex, derived::log_index),
    (Check::Senders, senders::senders),
];

/// Return what is proven about a completed block, or why it is refused.
///
/// The proof does not include the parent link, which involves two blocks.
pub fn check(answer: &Answer, question: &Question) -> Result<Proof, Refusal> {
    let hash = &answer.block.hash;
    if let Some(known) = question.anchor.filter(|known| known != hash) {
        let finding = format!(
            "its hash is {}, but the known hash is {}",
            hex(hash),
            hex(&known)
        );
        return refuse(Check::Anchor, finding);
    }
    if question.asked.is_empty() {
        return Ok(Proof::default());
    }
    let subject = Subject::new(answer, question);
    let proof = check_block(&subject)?;
    match (&answer.range, subject.transactions()) {
        (Some(range), Some(_)) => Ok(proof.or(range_logs::check(&subject, range)?)),
        _ => Ok(proof),
    }
}

fn check_block(it: &Subject) -> Result<Proof, Refusal> {
    let Question {
        asked,
        supported,
        network,
        height,
        ..
    } = *it.question;
    let possible = asked.and(supported);
    let plain = passed(PLAIN, possible, it)?;
    let proven = passed(PROOFS, possible, it)?;
    let implied = if proven == named(PROOFS) && !it.has_unrooted() {
        possible.and(named(IMPLIED))
    } else {
        passed(IMPLIED, possible, it)?
    };
    let proven = plain
        .or(proven)
        .or(implied)
        .or(passed(FURTHER, possible, it)?);
    let mut unproven = asked.without(proven).without(Check::Link.alone());
    if it.has_unrooted() || (network.sprint != 0 && height % network.sprint == 0) {
        unproven.add(Check::StateSync);
    }
    Ok(Proof { proven, unproven })
}

/// Run those of the checks that are possible; return those that passed.
fn passed(checks: &Checks, possible: CheckSet, it: &Subject) -> Result<CheckSet, Refusal> {
    let mut found = CheckSet::default();
    for (check, run) in checks {
        if possible.has(*check) && run(it)? {
            found.add(*check);
        }
    }
    Ok(found)
}

fn named(checks: &Checks) -> CheckSet {
    checks
        .iter()
        .fold(CheckSet::default(), |found, (check, _)| {
            found.or(check.alone())
        })
}
