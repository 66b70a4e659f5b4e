//! Any bytes as the answers for a block: no panic, no endless loop, no unbounded memory.
//!
//! What was accepted is proven again from its rows. `answers` describes the input.
#![no_main]

mod answers;

use gapless_native::read::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((raw, wanted)) = answers::question(input) else {
        return;
    };
    let found = read(&[raw], &wanted).expect("columns this short fit into Arrow");
    assert_eq!(found.good.len() + found.refused.len(), 1);
    let tables = found.tables.into_iter().map(|(_, rows)| rows);
    answers::prove(tables.collect(), &wanted);
});
