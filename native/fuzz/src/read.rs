//! Any bytes as the answers for a block: no panic, no endless loop, no unbounded memory.
//!
//! The input is a byte of options, the block, a zero byte, and the receipts.
#![no_main]

use gapless_native::model::Answer;
use gapless_native::parse::{KeptBlock, KeptRows, parse_block, parse_receipts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((options, texts)) = input.split_first() else {
        return;
    };
    let (light, full) = (options & 1 != 0, options & 2 != 0);
    let mut parts = texts.splitn(2, |byte| *byte == 0);
    let mut answer = Answer::default();
    let mut kept = KeptBlock::default();
    let block = parts.next().unwrap_or_default();
    let parsed = parse_block(block, &mut answer, light, full, &mut kept);
    if let (Ok(()), Some(receipts)) = (parsed, parts.next()) {
        let (mut kept, mut kept_logs) = (KeptRows::default(), KeptRows::default());
        let _ = parse_receipts(receipts, &mut answer, full, &mut kept, &mut kept_logs);
    }
});
