//! Prove stored rows on their own: restore answers from them, check those, and decode them again.
//!
//! Only rows without any flaw are proven here. Whatever is unusual about them — a text that is not
//! JSON, a row out of place, a failed check — makes the result `None`, and the Python reference
//! examines the rows again to say what is wrong. So this must never call rows sound that the
//! reference does not, but need not explain anything.

mod columns;
mod restore;
mod row;
mod texts;

use arrow_array::RecordBatch;

use crate::checks::check;
use crate::completion::complete;
use crate::model::{Answer, Transactions};
use crate::placement::{misplaced, pair};
use crate::tables::{self, Accepted};
use crate::verdict::{Check, CheckSet, Network, Proof, Question};
use restore::restore;

/// The stored rows of some blocks; a table that is absent was not stored.
pub struct Stored {
    pub blocks: RecordBatch,
    pub transactions: Option<RecordBatch>,
    pub logs: Option<RecordBatch>,
    pub withdrawals: Option<RecordBatch>,
}

/// How to check the rows.
pub struct Expected {
    pub network: Network,
    pub chain_id: u64,
    /// The checks that are possible with the stored tables.
    pub asked: CheckSet,
    /// The checks that the network supports, by the first height since which it does; ascending.
    pub supported: Vec<(u64, CheckSet)>,
}

/// What is proven of rows without a flaw.
pub struct Examined {
    /// What is proven of all blocks, and what is not of some.
    pub proof: Proof,
    /// Whether the blocks were restored with their receipts.
    pub with_receipts: bool,
    /// The tables decoded again, which must equal the stored ones.
    pub tables: Vec<(&'static str, RecordBatch)>,
}

/// Tables that nothing is decoded to without transactions.
const NOT_LIGHT: [&str; 2] = ["transactions", "logs"];

/// How a block was fetched, as far as its rows tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Light,
    WithoutReceipts,
    WithRangeLogs,
    WithReceipts,
}

/// Prove the rows of some blocks; `None` if the reference must examine them.
pub fn examine(stored: &Stored, expected: &Expected) -> Option<Examined> {
    let answers = restore(stored, expected.chain_id)?;
    let form = form_of(answers.first()?);
    if answers.iter().any(|it| form_of(it) != form) {
        return None;
    }
    let mut proof: Option<Proof> = None;
    let mut accepted = Vec::with_capacity(answers.len());
    for mut answer in answers {
        let own = prove(&mut answer, expected)?;
        proof = Some(proof.map_or(own, |others| others.and(own)));
        accepted.push(Accepted {
            pairs: pair(&answer)?,
            answer,
        });
    }
    let is_restored = |name: &&str| form != Form::Light || !NOT_LIGHT.contains(name);
    let names = tables::NAMES
        .into_iter()
        .filter(|name| stored.has(name))
        .filter(is_restored);
    let decoded = names.map(|name| {
        let rows = tables::table(name, &accepted, expected.chain_id)?;
        Some((name, rows.ok()?))
    });
    let tables = decoded.collect::<Option<_>>()?;
    Some(Examined {
        proof: proof?,
        with_receipts: form == Form::WithReceipts,
        tables,
    })
}

/// Complete and check a restored block.
fn prove(answer: &mut Answer, expected: &Expected) -> Option<Proof> {
    let height = answer.block.number;
    let eras = expected.supported.iter().rev();
    let supported = eras
        .filter(|(start, _)| *start <= height)
        .map(|it| it.1)
        .next()?;
    let Expected { network, asked, .. } = *expected;
    let question = Question {
        height,
        network,
        asked,
        supported,
        anchor: None,
    };
    complete(answer, &question);
    let mut proof = check(answer, &question).ok()?;
    if answer.receipts.is_some() && supported.has(Check::ReceiptBlooms) {
        // Not impossible: the blooms are only not stored, and a node has them.
        proof.unproven = proof.unproven.without(Check::ReceiptBlooms.alone());
    }
    misplaced(answer).is_none().then_some(proof)
}

fn form_of(answer: &Answer) -> Form {
    match (&answer.block.transactions, &answer.receipts, &answer.range) {
        (Transactions::Counted(_), ..) => Form::Light,
        (_, Some(_), _) => Form::WithReceipts,
        (_, _, Some(_)) => Form::WithRangeLogs,
        _ => Form::WithoutReceipts,
    }
}

impl Stored {
    fn has(&self, table: &str) -> bool {
        match table {
            "transactions" => self.transactions.is_some(),
            "logs" => self.logs.is_some(),
            "withdrawals" => self.withdrawals.is_some(),
            _ => true,
        }
    }
}
