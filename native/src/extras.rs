//! Write the column `extra`: what an answer says and no other column holds.
//!
//! It runs before completion, because a receipt's `type` is compared with what the node gave.

mod implied;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::bloom;
use crate::extras::implied::Implied;
use crate::forms::write_quantity;
use crate::model::{Answer, ExtraKey, Hash, Log, Receipt, Slice, Transaction, Transactions, U256};
use crate::parse::{Kept, KeptBlock, KeptRows, TEXTS, write_object};
use crate::placement::Pairs;

/// The smallest `v` without and with a chain id (EIP-155).
const LEGACY: u64 = 27;
const PROTECTED: u64 = 35;

/// The keys without a column in all answers for a block that was read in full.
#[derive(Default)]
pub struct KeptKeys<'a> {
    pub block: KeptBlock<'a>,
    pub receipts: KeptRows<'a>,
    pub logs: KeptRows<'a>,
}

/// Members of an object that is to be written: keys, and values as JSON.
type Members<'k> = Vec<(&'k [u8], &'k [u8])>;

/// Write `extra` of all rows; return whether a key without a column was kept.
///
/// `kept` is `None` if the block was not read in full.
pub fn write_extras(
    answer: &mut Answer,
    kept: Option<&KeptKeys>,
    pairs: &Pairs,
    chain_id: u64,
) -> bool {
    let mut has_extra = kept.is_some_and(|kept| keep_block(answer, &kept.block));
    let place = Implied::of_block(&answer.block);
    let Transactions::Full(rows) = &mut answer.block.transactions else {
        return has_extra;
    };
    let receipts = answer.receipts.as_deref().unwrap_or_default();
    let last = kept.map(|_| last_rows(rows)).unwrap_or_default();
    for at in 0..rows.len() {
        let mut nested = Vec::new();
        if let Some(found) = pairs[at].map(|found| found as usize) {
            let receipt = &receipts[found];
            let mut members = Members::new();
            if let Some(kept) = kept {
                let row = &rows[last.get(&receipt.transaction_hash).copied().unwrap_or(at)];
                let own = Implied::of_transaction(row);
                let start = receipt.logs.start as usize;
                let logs = &mut answer.logs[start..start + receipt.logs.len as usize];
                let layers = [&place, &own, &Implied::of_log()];
                has_extra |= keep_logs(&mut answer.arena, logs, start, &kept.logs, &layers);
                let copies = Implied::of_receipt(row, &bloom::of_logs(&*logs));
                members = undeclared(kept.receipts.of(found), &[&place, &own, &copies]);
                has_extra |= !members.is_empty();
            }
            write_receipt(&mut nested, &members, receipt, &answer.arena);
        }
        let strays = strays(&rows[at], chain_id);
        let mut members = Members::new();
        if let Some(kept) = kept {
            let implied = [&place, &Implied::of_position(at as u64)];
            members = undeclared(kept.block.transactions.of(at), &implied);
            has_extra |= !members.is_empty();
        }
        members.extend(
            strays
                .iter()
                .map(|(key, value)| (key.as_bytes(), &value[..])),
        );
        if !nested.is_empty() {
            members.push((b"receipt", &nested));
        }
        rows[at].extra = write(&mut answer.arena, &mut members);
    }
    has_extra
}

/// Keep the keys of the block itself and of its withdrawals.
fn keep_block(answer: &mut Answer, kept: &KeptBlock) -> bool {
    let arena = &mut answer.arena;
    let members = undeclared(kept.block.of(0), &[]);
    let mut has_extra = !members.is_empty();
    answer.block.extra = members
        .iter()
        .map(|(key, value)| ExtraKey {
            key: store(arena, key),
            value: store(arena, value),
        })
        .collect();
    for (at, row) in answer.block.withdrawals.iter_mut().flatten().enumerate() {
        row.extra = write(arena, &mut undeclared(kept.withdrawals.of(at), &[]));
        has_extra |= row.extra.len > 0;
    }
    has_extra
}

fn keep_logs(
    arena: &mut Vec<u8>,
    logs: &mut [Log],
    start: usize,
    kept: &KeptRows,
    implied: &[&Implied],
) -> bool {
    let mut has_extra = false;
    for (at, log) in logs.iter_mut().enumerate() {
        log.extra = write(arena, &mut undeclared(kept.of(start + at), implied));
        has_extra |= log.extra.len > 0;
    }
    has_extra
}

/// The last transaction of each hash.
fn last_rows(rows: &[Transaction]) -> HashMap<Hash, usize> {
    rows.iter()
        .enumerate()
        .map(|(at, row)| (row.hash, at))
        .collect()
}

/// Of equal keys the last, without copies of what is implied.
fn undeclared<'k>(kept: &'k [Kept], implied: &[&Implied]) -> Members<'k> {
    let is_implied = |it: &&Kept| implied.iter().any(|each| each.covers(it));
    if kept.iter().all(|it| is_implied(&it)) {
        return Members::new();
    }
    let mut sorted: Vec<&Kept> = kept.iter().collect();
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    sorted
        .iter()
        .enumerate()
        .filter(|(at, it)| sorted.get(at + 1).is_none_or(|next| next.0 != it.0))
        .filter(|(_, it)| !is_implied(it))
        .map(|(_, it)| (&*it.0, it.1))
        .collect()
}

/// The declared fields of a transaction that contradict what its row implies, as JSON.
fn strays(row: &Transaction, chain_id: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut found = Vec::new();
    if let Some(id) = row.chain_id.filter(|id| *id != word(chain_id)) {
        found.push(("chainId", quantity(&id)));
    }
    if let (Some(v), Some(parity)) = (row.v, row.y_parity)
        && v != parity
        && parity_of(v) != Some(parity)
    {
        found.push(("yParity", quantity(&word(parity))));
    }
    found
}

/// The parity of a legacy `v`, which is 27 + parity or 35 + 2 * chain id + parity.
fn parity_of(v: u64) -> Option<u64> {
    let first = if v < PROTECTED { LEGACY } else { PROTECTED };
    v.checked_sub(first).map(|rest| rest % 2)
}

/// Write the keys of a receipt, and its fields that are too rare for a column.
fn write_receipt(out: &mut Vec<u8>, undeclared: &Members, receipt: &Receipt, arena: &[u8]) {
    let quoted = |text: Slice| [b"\"", text.of(arena), b"\""].concat();
    let rare: Vec<(&str, Vec<u8>)> = TEXTS
        .into_iter()
        .zip(receipt.texts)
        .filter_map(|(key, text)| Some((key, quoted(text?))))
        .collect();
    let mut members = undeclared.clone();
    members.extend(rare.iter().map(|(key, value)| (key.as_bytes(), &value[..])));
    if let Some(is_boosted) = receipt.timeboosted {
        let value: &[u8] = if is_boosted { b"true" } else { b"false" };
        members.push((b"timeboosted", value));
    }
    if !members.is_empty() {
        write_object(out, &mut members);
    }
}

/// Write an object to the arena; nothing if it would be empty.
fn write(arena: &mut Vec<u8>, members: &mut Members) -> Slice {
    if members.is_empty() {
        return Slice::default();
    }
    let start = arena.len();
    write_object(arena, members);
    Slice::between(start, arena.len())
}

fn store(arena: &mut Vec<u8>, bytes: &[u8]) -> Slice {
    let start = arena.len();
    arena.extend_from_slice(bytes);
    Slice::between(start, arena.len())
}

fn quantity(number: &U256) -> Vec<u8> {
    let mut json = vec![b'"'];
    write_quantity(&mut json, number);
    json.push(b'"');
    json
}

fn word(number: u64) -> U256 {
    let mut word = [0; 32];
    word[24..].copy_from_slice(&number.to_be_bytes());
    word
}
