//! The answers for a block and what to do with them, from the input of a target.
//!
//! The input is a byte of options, the block, a zero byte, the receipts, and, after another zero
//! byte each, logs of a range and the same from a second node.

use arrow_array::RecordBatch;
use gapless_native::read::{RawBlock, Wanted};
use gapless_native::rows::{Expected, Stored, examine};
use gapless_native::tables::NAMES;
use gapless_native::verdict::{Check, CheckSet, HeaderForm, Network};

const ALL: CheckSet = CheckSet((1 << Check::NAMES.len()) - 1);
const FORMS: [HeaderForm; 4] = [
    HeaderForm::Ethereum,
    HeaderForm::Aura,
    HeaderForm::Avalanche,
    HeaderForm::Tempo,
];

pub fn question(input: &[u8]) -> Option<(RawBlock<'_>, Wanted<'static>)> {
    let (&options, texts) = input.split_first()?;
    let has = |bit: u8| options & (1 << bit) != 0;
    let mut parts = texts.splitn(4, |byte| *byte == 0);
    let block = parts.next().unwrap_or_default();
    let raw = RawBlock {
        height: height_of(block),
        block,
        receipts: parts.next(),
        logs: parts.next(),
        other_logs: parts.next(),
        full: has(1),
        supported: ALL,
        anchor: None,
    };
    let network = Network {
        header: FORMS[usize::from(options >> 2 & 3)],
        byzantium: if has(4) { u64::MAX } else { 0 },
        sprint: if has(5) { 16 } else { 0 },
    };
    let wanted = Wanted {
        light: has(0),
        network,
        asked: if has(6) { ALL } else { CheckSet::default() },
        chain_id: 1337,
        tables: NAMES.to_vec(),
    };
    Some((raw, wanted))
}

/// Prove the rows of a block on their own, as `verify` does.
pub fn prove(mut tables: Vec<RecordBatch>, wanted: &Wanted) {
    if tables.is_empty() {
        return;
    }
    let blocks = tables.remove(0);
    let mut others = tables.into_iter();
    let stored = Stored {
        blocks,
        transactions: others.next(),
        logs: others.next(),
        withdrawals: others.next(),
    };
    let expected = Expected {
        network: wanted.network,
        chain_id: wanted.chain_id,
        asked: wanted.asked,
        supported: vec![(0, ALL)],
    };
    let _ = examine(&stored, &expected);
}

/// The number that a block claims, so that its height does not refuse it before anything else.
fn height_of(block: &[u8]) -> u64 {
    let key = b"\"number\":";
    let Some(at) = block.windows(key.len()).position(|it| it == key) else {
        return 0;
    };
    let rest = block[at + key.len()..].trim_ascii_start();
    let digits = rest.strip_prefix(b"\"0x").unwrap_or_default();
    let length = digits
        .iter()
        .take_while(|it| it.is_ascii_hexdigit())
        .count();
    let text = std::str::from_utf8(&digits[..length]).unwrap_or_default();
    u64::from_str_radix(text, 16).unwrap_or_default()
}
