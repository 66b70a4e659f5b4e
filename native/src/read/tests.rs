use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};

use super::*;
use crate::verdict::{Check, HeaderForm};

const HASH: &str = "0x00000000000000000000000000000000000000000000000000000000000000aa";
const OTHER: &str = "0x00000000000000000000000000000000000000000000000000000000000000cc";
const ADDRESS: &str = "0x00000000000000000000000000000000000000bb";

fn block(height: u64, transactions: &str, more: &str) -> String {
    format!(
        r#"{{"number":"{height:#x}","timestamp":"0xff","hash":"{HASH}","parentHash":"{OTHER}",
        "sha3Uncles":"{HASH}","stateRoot":"{HASH}","transactionsRoot":"{HASH}",
        "receiptsRoot":"{HASH}","miner":"{ADDRESS}","gasLimit":"0x3","gasUsed":"0x4",
        "extraData":"0xab","uncles":["{HASH}"],"transactions":[{transactions}]{more}}}"#
    )
}

fn transaction(hash: &str, index: u64, more: &str) -> String {
    format!(
        r#"{{"hash":"{hash}","blockHash":"{HASH}","blockNumber":"0x1","transactionIndex":"{index:#x}",
        "from":"{ADDRESS}","nonce":"0x0","gas":"0x1"{more}}}"#
    )
}

fn receipt(hash: &str, logs: &str) -> String {
    format!(
        r#"{{"blockHash":"{HASH}","blockNumber":"0x1","transactionHash":"{hash}",
        "transactionIndex":"0x0","cumulativeGasUsed":"0x1","logs":[{logs}]}}"#
    )
}

fn log(more: &str) -> String {
    format!(r#"{{"address":"{ADDRESS}","topics":["{HASH}"],"data":"0x","logIndex":"0x0"{more}}}"#)
}

fn range_log(index: u64, more: &str) -> String {
    log(&format!(
        r#","blockHash":"{HASH}","blockNumber":"0x1","transactionHash":"{HASH}",
        "transactionIndex":"{index:#x}"{more}"#
    ))
}

fn raw<'a>(height: u64, block: &'a str, receipts: Option<&'a str>) -> RawBlock<'a> {
    RawBlock {
        height,
        block: block.as_bytes(),
        receipts: receipts.map(str::as_bytes),
        logs: None,
        other_logs: None,
        full: false,
        supported: CheckSet(Check::Height.bit()),
        anchor: None,
    }
}

fn wanted() -> Wanted<'static> {
    Wanted {
        light: false,
        network: Network {
            header: HeaderForm::Ethereum,
            byzantium: 0,
            sprint: 0,
        },
        asked: CheckSet::default(),
        chain_id: 7,
        tables: crate::tables::NAMES.to_vec(),
    }
}

fn refusals(raws: &[RawBlock]) -> Vec<(u64, Refusal)> {
    read(raws, &wanted()).unwrap().refused
}

fn is_bad_answer(block: &str, receipts: Option<&str>) -> bool {
    matches!(
        &refusals(&[raw(1, block, receipts)])[..],
        [(1, Refusal::BadAnswer(_))]
    )
}

fn table<'r>(reading: &'r Reading, name: &str) -> &'r RecordBatch {
    &reading
        .tables
        .iter()
        .find(|(each, _)| *each == name)
        .unwrap()
        .1
}

fn numbers(rows: &RecordBatch, column: &str) -> Vec<Option<u64>> {
    rows.column_by_name(column)
        .unwrap()
        .as_primitive::<UInt64Type>()
        .iter()
        .collect()
}

#[test]
fn refuses_only_the_malformed_block() {
    let (one, two) = (block(1, "", ""), block(2, "", r#","size":"nonsense""#));
    let reading = read(
        &[raw(1, &one, Some("[]")), raw(2, &two, Some("[]"))],
        &wanted(),
    )
    .unwrap();
    assert_eq!(reading.good.len(), 1);
    assert_eq!(
        (reading.good[0].height, reading.good[0].parent_hash[31]),
        (1, 0xcc)
    );
    assert!(matches!(reading.refused[..], [(2, Refusal::BadAnswer(_))]));
    assert_eq!(
        numbers(table(&reading, "blocks"), "block_number"),
        [Some(1)]
    );
}

#[test]
fn has_no_tables_without_an_accepted_block() {
    let reading = read(&[raw(1, "null", None)], &wanted()).unwrap();
    assert!(reading.tables.is_empty() && reading.good.is_empty());
}

#[test]
fn fills_the_columns() {
    let rows = transaction(
        HASH,
        0,
        r#","value":"0x20000000000001","v":"0x1b","type":"0x2""#,
    );
    let block = block(1, &rows, "");
    let receipts = format!("[{}]", receipt(HASH, &format!("{},{}", log(""), log(""))));
    let reading = read(&[raw(1, &block, Some(&receipts))], &wanted()).unwrap();
    let rows = table(&reading, "transactions");
    assert_eq!(numbers(rows, "type"), [Some(2)]);
    assert_eq!(numbers(rows, "v"), [Some(27)]);
    assert_eq!(numbers(rows, "status"), [None]);
    assert_eq!(numbers(rows, "log_count"), [Some(2)]);
    let doubles = rows
        .column_by_name("value_f64")
        .unwrap()
        .as_primitive::<Float64Type>();
    assert_eq!(doubles.value(0), 9007199254740993.0);
    let logs = table(&reading, "logs");
    assert_eq!(numbers(logs, "log_position"), [Some(0), Some(1)]);
    assert_eq!(numbers(logs, "chain_id"), [Some(7), Some(7)]);
    assert!(logs.column_by_name("topic0").unwrap().is_valid(0));
    assert!(logs.column_by_name("topic1").unwrap().is_null(0));
    let blocks = table(&reading, "blocks");
    assert_eq!(numbers(blocks, "transfer_count"), [None]);
    assert_eq!(numbers(blocks, "log_count"), [Some(2)]);
    let uncles = blocks.column_by_name("uncles").unwrap().as_string::<i32>();
    assert_eq!(uncles.value(0), format!(r#"["{HASH}"]"#));
}

#[test]
fn a_block_has_the_requested_height() {
    assert!(is_bad_answer(&block(2, "", ""), None));
}

#[test]
fn positions_are_examined() {
    assert!(is_bad_answer(
        &block(1, &transaction(HASH, 1, ""), ""),
        None
    ));
    let two = format!("{},{}", transaction(HASH, 0, ""), transaction(OTHER, 1, ""));
    let block = block(1, &two, "");
    let (one, other) = (receipt(HASH, ""), receipt(OTHER, ""));
    assert!(is_bad_answer(&block, Some(&format!("[{other},{one}]"))));
    assert!(is_bad_answer(&block, Some(&format!("[{one},{one}]"))));
    assert!(is_bad_answer(
        &block,
        Some(&format!("[{}]", receipt(HASH, &log(r#","removed":true"#))))
    ));
    let reading = read(&[raw(1, &block, Some(&format!("[{other}]")))], &wanted()).unwrap();
    let found = numbers(table(&reading, "transactions"), "cumulative_gas_used");
    assert_eq!(found, [None, Some(1)], "a transaction may have no receipt");
}

#[test]
fn the_form_comes_before_the_checks_and_they_before_the_placement() {
    let anchored = |text: &str| {
        let raw = RawBlock {
            anchor: Some([0; 32]),
            ..raw(1, text, None)
        };
        read(&[raw], &wanted()).unwrap().refused.remove(0).1
    };
    let misplaced = transaction(HASH, 1, "");
    assert!(matches!(
        anchored(&block(1, &misplaced, "")),
        Refusal::BadBlock(Check::Anchor, _)
    ));
    assert!(matches!(
        anchored(&block(1, &misplaced, r#","size":"x""#)),
        Refusal::BadAnswer(_)
    ));
}

#[test]
fn logs_by_range_are_counted_in_their_transactions() {
    let text = block(1, &transaction(HASH, 0, ""), "");
    let with_logs = |logs: &str| {
        let logs = format!("[{logs}]");
        read(
            &[RawBlock {
                logs: Some(logs.as_bytes()),
                ..raw(1, &text, None)
            }],
            &wanted(),
        )
        .unwrap()
    };
    let all = [range_log(0, ""), range_log(0, ""), range_log(3, "")].join(",");
    let reading = with_logs(&all);
    let logs = table(&reading, "logs");
    assert_eq!(numbers(logs, "log_position"), [Some(0), Some(1), Some(0)]);
    assert_eq!(
        numbers(logs, "transaction_index"),
        [Some(0), Some(0), Some(3)]
    );
    assert_eq!(numbers(table(&reading, "blocks"), "log_count"), [None]);
    for bad in [
        [range_log(1, ""), range_log(0, "")].join(","),
        range_log(0, r#","blockNumber":"0x2""#),
        range_log(0, r#","removed":true"#),
        log(""),
    ] {
        assert_eq!(with_logs(&bad).refused.len(), 1, "{bad}");
    }
}

#[test]
fn a_light_block_has_hashes() {
    let light = Wanted {
        light: true,
        tables: vec!["blocks", "withdrawals"],
        ..wanted()
    };
    let text = block(1, &format!("\"{HASH}\""), "");
    let reading = read(&[raw(1, &text, Some("nonsense"))], &light).unwrap();
    assert_eq!(
        numbers(table(&reading, "blocks"), "transaction_count"),
        [Some(1)]
    );
    assert_eq!(reading.tables.len(), 2);
    assert!(
        is_bad_answer(&text, None),
        "another block needs its transactions"
    );
}

#[test]
fn keys_without_a_column_are_reported() {
    let text = block(1, "", r#","b":1,"a":[2]"#);
    let full = RawBlock {
        full: true,
        ..raw(1, &text, None)
    };
    let reading = read(&[full], &wanted()).unwrap();
    assert!(reading.has_extra);
    let extra = table(&reading, "blocks").column_by_name("extra").unwrap();
    assert_eq!(extra.as_string::<i32>().value(0), r#"{"a":[2],"b":1}"#);
    let reading = read(&[raw(1, &text, None)], &wanted()).unwrap();
    assert!(!reading.has_extra);
    assert!(
        table(&reading, "blocks")
            .column_by_name("extra")
            .unwrap()
            .is_null(0)
    );
}
