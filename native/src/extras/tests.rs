use super::*;
use crate::parse::{parse_block, parse_receipts};
use crate::placement::pair;

const HASH: &str = "0x00000000000000000000000000000000000000000000000000000000000000aa";
const FROM: &str = "0x00000000000000000000000000000000000000bb";
const CHAIN_ID: u64 = 5;

/// The answers for a block with one transaction and one log, each with more keys.
#[derive(Default)]
struct Keys<'a> {
    block: &'a str,
    transaction: &'a str,
    receipt: &'a str,
    log: &'a str,
}

/// The `extra` of transaction and log, and whether a key was kept.
fn extras(keys: &Keys, full: bool) -> (String, String, bool) {
    let block = format!(
        r#"{{"number":"0x10","timestamp":"0xff","hash":"{HASH}","parentHash":"{HASH}",
        "sha3Uncles":"{HASH}","stateRoot":"{HASH}","transactionsRoot":"{HASH}",
        "receiptsRoot":"{HASH}","miner":"{FROM}","gasLimit":"0x3","gasUsed":"0x4",
        "extraData":"0x","uncles":[],"transactions":[{{"hash":"{HASH}","blockHash":"{HASH}",
        "blockNumber":"0x10","transactionIndex":"0x0","from":"{FROM}","nonce":"0x0","gas":"0x1"
        {}}}]{}}}"#,
        keys.transaction, keys.block
    );
    let receipts = format!(
        r#"[{{"blockHash":"{HASH}","blockNumber":"0x10","transactionHash":"{HASH}",
        "transactionIndex":"0x0","cumulativeGasUsed":"0x1","logs":[{{"address":"{FROM}",
        "topics":[],"data":"0x","logIndex":"0x0"{}}}]{}}}]"#,
        keys.log, keys.receipt
    );
    let (mut answer, mut kept) = (Answer::default(), KeptKeys::default());
    parse_block(block.as_bytes(), &mut answer, false, full, &mut kept.block).unwrap();
    let (of_receipts, of_logs) = (&mut kept.receipts, &mut kept.logs);
    parse_receipts(receipts.as_bytes(), &mut answer, full, of_receipts, of_logs).unwrap();
    let pairs = pair(&answer).unwrap();
    let has_extra = write_extras(&mut answer, full.then_some(&kept), &pairs, CHAIN_ID);
    let Transactions::Full(rows) = &answer.block.transactions else {
        panic!("it is not light")
    };
    let text = |slice: Slice| String::from_utf8(answer.bytes(slice).to_vec()).unwrap();
    (text(rows[0].extra), text(answer.logs[0].extra), has_extra)
}

fn of_transaction(keys: &str) -> String {
    extras(
        &Keys {
            transaction: keys,
            ..Keys::default()
        },
        true,
    )
    .0
}

#[test]
fn keys_are_kept_only_if_read_in_full() {
    let keys = Keys {
        transaction: r#","b":[1, 2],"a":"\u0041","b":{"x":1.50}"#,
        receipt: r#","z":null"#,
        log: r#","k":true"#,
        ..Keys::default()
    };
    assert_eq!(extras(&keys, false), (String::new(), String::new(), false));
    let text = r#"{"a":"\u0041","b":{"x":1.50},"receipt":{"z":null}}"#;
    assert_eq!(
        extras(&keys, true),
        (text.into(), r#"{"k":true}"#.into(), true)
    );
    let block = Keys {
        block: r#","x":1"#,
        ..Keys::default()
    };
    assert_eq!(extras(&block, true), (String::new(), String::new(), true));
}

#[test]
fn equal_copies_are_left_out() {
    let place = r#","blockTimestamp":255"#;
    let upper = format!(
        r#","blockHash":"{}","blockNumber":"\u0030x10","blockTimestamp":"0xFf""#,
        HASH.replace("aa", "aA")
    );
    let keys = Keys {
        transaction: place,
        receipt: &format!(
            r#"{upper},"from":"{}","to":null,"type":null"#,
            FROM.to_uppercase().replace('X', "x")
        ),
        log: &format!(r#"{upper},"transactionHash":"{HASH}","transactionIndex":0,"removed":false"#),
        ..Keys::default()
    };
    assert_eq!(extras(&keys, true), (String::new(), String::new(), false));
}

#[test]
fn other_copies_are_kept() {
    let keys = Keys {
        transaction: r#","blockTimestamp":2.55e2"#,
        receipt: r#","to":"0x","type":"0x0","logsBloom":null"#,
        log: r#","blockHash":null,"transactionIndex":"0x00","blockNumber":17"#,
        ..Keys::default()
    };
    let transaction =
        r#"{"blockTimestamp":2.55e2,"receipt":{"logsBloom":null,"to":"0x","type":"0x0"}}"#;
    let log = r#"{"blockHash":null,"blockNumber":17,"transactionIndex":"0x00"}"#;
    assert_eq!(extras(&keys, true), (transaction.into(), log.into(), true));
}

#[test]
fn the_last_of_equal_copies_decides() {
    let differs = r#","blockTimestamp":1"#;
    let equals = r#","blockTimestamp":"0xff""#;
    assert_eq!(of_transaction(&format!("{differs}{equals}")), "");
    assert_eq!(
        of_transaction(&format!("{equals}{differs}")),
        r#"{"blockTimestamp":1}"#
    );
}

#[test]
fn contradicting_fields_are_kept_in_both_ways() {
    for (given, kept) in [
        (r#","chainId":"0x5""#, ""),
        (r#","chainId":"0x05""#, ""),
        (r#","chainId":"0x0A""#, r#"{"chainId":"0xa"}"#),
        (r#","v":"0x1","yParity":"0x01""#, ""),
        (r#","v":"0x1b","yParity":"0x0""#, ""),
        (r#","v":"0x22","yParity":"0x1""#, ""),
        (r#","v":"0x23","yParity":"0x0""#, ""),
        (r#","v":"0x24","yParity":"0x0""#, r#"{"yParity":"0x0"}"#),
        (r#","v":"0x0","yParity":"0x1""#, r#"{"yParity":"0x1"}"#),
        (r#","v":"0x1a","yParity":"0x1""#, r#"{"yParity":"0x1"}"#),
        (r#","yParity":"0x1""#, ""),
    ] {
        for full in [false, true] {
            let found = extras(
                &Keys {
                    transaction: given,
                    ..Keys::default()
                },
                full,
            );
            assert_eq!(found, (kept.into(), String::new(), false), "{given}");
        }
    }
}

#[test]
fn rare_fields_of_a_receipt_are_nested() {
    let keys = Keys {
        transaction: r#","receipt":1"#,
        receipt: r#","timeboosted":false,"l1FeeScalar":"0.684","l1BlobBaseFee":null,"other":1"#,
        ..Keys::default()
    };
    let rare = r#"{"receipt":{"l1FeeScalar":"0.684","timeboosted":false}}"#;
    assert_eq!(extras(&keys, false), (rare.into(), String::new(), false));
    let full = r#"{"receipt":{"l1FeeScalar":"0.684","other":1,"timeboosted":false}}"#;
    assert_eq!(extras(&keys, true), (full.into(), String::new(), true));
}
