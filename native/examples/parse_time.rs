//! Measure how long parsing one block takes: `parse_time BLOCK RECEIPTS`.

use std::time::Instant;

use gapless_native::model::Answer;
use gapless_native::parse::{KeptBlock, KeptRows, parse_block, parse_receipts};

fn main() {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let block = std::fs::read(&paths[0]).unwrap();
    let receipts = std::fs::read(&paths[1]).unwrap();
    for full in [false, true] {
        let mut best = f64::MAX;
        let mut best_block = f64::MAX;
        for _ in 0..300 {
            let start = Instant::now();
            let mut answer = Answer::default();
            answer.arena.reserve((block.len() + receipts.len()) / 2);
            let (mut kept, mut rows, mut logs) = (
                KeptBlock::default(),
                KeptRows::default(),
                KeptRows::default(),
            );
            parse_block(&block, &mut answer, false, full, &mut kept).unwrap();
            best_block = best_block.min(start.elapsed().as_secs_f64());
            parse_receipts(&receipts, &mut answer, full, &mut rows, &mut logs).unwrap();
            best = best.min(start.elapsed().as_secs_f64());
        }
        let size = block.len() + receipts.len();
        println!(
            "full {full}: {size} bytes, {:.3} ms (block {:.3}), {:.2} GB/s",
            best * 1e3,
            best_block * 1e3,
            size as f64 / best / 1e9
        );
    }
}
