use super::*;
use crate::json::Read;
use crate::model::{Answer, Transaction, Transactions};

const HASH: &str = "0x00000000000000000000000000000000000000000000000000000000000000aA";
const ADDRESS: &str = "0x00000000000000000000000000000000000000Bb";

fn transaction(more: &str) -> String {
    format!(
        r#"{{"hash":"{HASH}","blockHash":"{HASH}","blockNumber":"0x1","transactionIndex":"0x0",
        "from":"{ADDRESS}","nonce":"0x0","gas":"0x5208"{more}}}"#
    )
}

fn block(transactions: &str, more: &str) -> String {
    format!(
        r#"{{"number":"0x1","timestamp":"0x2","hash":"{HASH}","parentHash":"{HASH}",
        "sha3Uncles":"{HASH}","stateRoot":"{HASH}","transactionsRoot":"{HASH}",
        "receiptsRoot":"{HASH}","miner":"{ADDRESS}","gasLimit":"0x3","gasUsed":"0x4",
        "extraData":"0x","uncles":[],"transactions":{transactions}{more}}}"#
    )
}

fn receipt(logs: &str, more: &str) -> String {
    format!(
        r#"{{"blockHash":"{HASH}","blockNumber":"0x1","transactionHash":"{HASH}",
        "transactionIndex":"0x0","cumulativeGasUsed":"0x5208","logs":{logs}{more}}}"#
    )
}

fn log(more: &str) -> String {
    format!(r#"{{"address":"{ADDRESS}","topics":[],"data":"0x","logIndex":"0x0"{more}}}"#)
}

fn parsed(block: &str) -> Read<Answer> {
    let mut answer = Answer::default();
    let mut kept = KeptBlock::default();
    parse_block(block.as_bytes(), &mut answer, false, false, &mut kept).map(|()| answer)
}

fn parsed_receipts(receipts: &str) -> Read<Answer> {
    let mut answer = Answer::default();
    let (mut kept, mut logs) = (KeptRows::default(), KeptRows::default());
    parse_receipts(receipts.as_bytes(), &mut answer, true, &mut kept, &mut logs).map(|()| answer)
}

/// The only transaction of a block in which it has more fields, and the arena of the block.
fn with(more: &str) -> Read<(Transaction, Vec<u8>)> {
    let answer = parsed(&block(&format!("[{}]", transaction(more)), ""))?;
    match answer.block.transactions {
        Transactions::Full(mut rows) => Ok((rows.remove(0), answer.arena)),
        Transactions::Hashes(_) | Transactions::Counted(_) => panic!("the block is not light"),
    }
}

fn is_refused(more: &str) -> bool {
    with(more).is_err()
}

#[test]
fn parses_a_block() {
    let answer = parsed(&block("[]", r#","difficulty":"0x0A","withdrawals":[]"#)).unwrap();
    assert_eq!(answer.block.number, 1);
    assert_eq!(answer.block.hash[31], 0xaa);
    assert_eq!(answer.block.difficulty.unwrap()[31], 10);
    assert!(answer.block.withdrawals.unwrap().is_empty());
    assert!(answer.block.nonce.is_none());
}

#[test]
fn null_is_absent_only_if_a_field_is_optional() {
    assert!(
        with(r#","value":null,"to":null,"accessList":null"#)
            .unwrap()
            .0
            .value
            .is_none()
    );
    assert!(is_refused(r#","gas":null"#));
    assert!(parsed(&block("null", "")).is_err());
    assert!(
        parsed(&block("[]", r#","withdrawals":null"#))
            .unwrap()
            .block
            .withdrawals
            .is_none()
    );
    assert!(
        parsed_receipts(&format!(
            "[{}]",
            receipt(&format!("[{}]", log(r#","removed":null"#)), "")
        ))
        .is_err()
    );
}

#[test]
fn the_last_of_equal_keys_counts() {
    assert_eq!(with(r#","gas":"0x7""#).unwrap().0.gas, 7);
    assert_eq!(with(r#","gas":"nonsense","gas":"0x8""#).unwrap().0.gas, 8);
    assert!(
        with(r#","value":"0x1","value":null"#)
            .unwrap()
            .0
            .value
            .is_none()
    );
    assert!(is_refused(r#","gas":"0x8","gas":"nonsense""#));
    assert!(
        is_refused(r#","gas":5,"gas":"0x5""#),
        "types are checked in every occurrence"
    );
    let flawed = format!("[{}]", transaction(r#","gas":"nonsense""#));
    assert!(parsed(&block(&flawed, "")).is_err());
    assert!(parsed(&block(&flawed, r#","transactions":[]"#)).is_ok());
    assert!(
        parsed(&block(r#"[{}]"#, r#","transactions":[]"#)).is_err(),
        "a required key is absent"
    );
}

#[test]
fn the_last_logs_of_a_receipt_count() {
    let two = format!("[{},{}]", log(""), log(r#","data":"0x1""#));
    let one = format!(r#","logs":[{}]"#, log(r#","logIndex":"0x9""#));
    let text = format!("[{},{}]", receipt(&two, &one), receipt("[]", &one));
    let answer = parsed_receipts(&text).unwrap();
    let counts: Vec<u32> = answer
        .receipts
        .as_ref()
        .unwrap()
        .iter()
        .map(|it| it.logs.len)
        .collect();
    assert_eq!(counts, [1, 1]);
    assert_eq!(
        answer
            .logs
            .iter()
            .map(|it| it.log_index)
            .collect::<Vec<_>>(),
        [9, 9]
    );
}

#[test]
fn keys_are_found_in_any_order_and_notation() {
    let plain = transaction("");
    let reversed = plain[1..plain.len() - 1]
        .rsplit(',')
        .collect::<Vec<_>>()
        .join(" ,\n");
    let escaped = plain
        .replace("\"gas\"", r#""\u0067as""#)
        .replace("0x5208", r"\u0030x5208");
    let rows = format!("[{plain},{{{reversed}}},{escaped},{plain}]");
    let Transactions::Full(rows) = parsed(&block(&rows, "")).unwrap().block.transactions else {
        panic!("the block is not light")
    };
    assert!(
        rows.iter()
            .all(|row| row.gas == 0x5208 && row.hash[31] == 0xaa && row.from[19] == 0xbb)
    );
}

#[test]
fn the_reserved_key_is_refused() {
    assert!(is_refused(r#","(extra)":1"#));
    assert!(is_refused(r#","\u0028extra)":null"#));
    assert!(parsed(&block("[]", r#","(extra)":{}"#)).is_err());
    assert!(!is_refused(r#","(Extra)":1"#));
}

#[test]
fn topics_are_at_most_four() {
    let topics = |count| vec![format!("\"{HASH}\""); count].join(",");
    for count in 0..=4 {
        let logs = format!("[{}]", log(&format!(r#","topics":[{}]"#, topics(count))));
        let answer = parsed_receipts(&format!("[{}]", receipt(&logs, ""))).unwrap();
        assert_eq!(answer.logs[0].topics().len(), count);
    }
    let logs = format!("[{}]", log(&format!(r#","topics":[{}]"#, topics(5))));
    assert!(parsed_receipts(&format!("[{}]", receipt(&logs, ""))).is_err());
}

#[test]
fn lists_are_written_in_one_notation() {
    let text = |list: &str| {
        let (row, arena) = with(&format!(r#","accessList":{list}"#)).unwrap();
        let text = row.access_list.unwrap().text;
        String::from_utf8(text.of(&arena).to_vec()).unwrap()
    };
    let address = ADDRESS.to_lowercase();
    let hash = HASH.to_lowercase();
    assert_eq!(text(" [ ] "), "[]");
    assert_eq!(
        text(&format!(
            r#"[{{ "storageKeys" : ["{HASH}"], "b\u0001\"" : [1, 2.0], "address":"{ADDRESS}" }}]"#
        )),
        format!(r#"[{{"address":"{address}","b\u0001\"":[1, 2.0],"storageKeys":["{hash}"]}}]"#)
    );
    let (row, arena) = with(&format!(
        r#","authorizationList":[{{"v":"0x1b","chainId":"0x0A","address":"{ADDRESS}","nonce":"0x00",
        "r":"0x1","s":"0x2","yParity":"0x1"}}]"#
    ))
    .unwrap();
    let list = row.authorization_list.unwrap();
    assert_eq!(
        (list.entries[0].parity, list.entries[0].chain_id[31]),
        (1, 10)
    );
    assert_eq!(
        std::str::from_utf8(list.text.of(&arena)).unwrap(),
        format!(
            r#"[{{"address":"{address}","chainId":"0x0a","nonce":"0x00","r":"0x1","s":"0x2","v":"0x1b","yParity":"0x1"}}]"#
        )
    );
}

#[test]
fn malformed_lists_are_refused() {
    for list in [
        "{}",
        "[null]",
        r#"[{"storageKeys":[]}]"#,
        &format!(r#"[{{"address":"{ADDRESS}"}}]"#),
        &format!(r#"[{{"address":"{ADDRESS}","storageKeys":null}}]"#),
        &format!(r#"[{{"address":"{ADDRESS}","storageKeys":["0x1"]}}]"#),
    ] {
        assert!(is_refused(&format!(r#","accessList":{list}"#)), "{list}");
        assert!(
            !is_refused(&format!(r#","accessList":{list},"accessList":[]"#)),
            "{list}"
        );
    }
    let authorization = |parity: &str| {
        format!(
            r#","authorizationList":[{{"chainId":"0x1","address":"{ADDRESS}","nonce":"0x0","r":"0x1","s":"0x2"{parity}}}]"#
        )
    };
    assert!(is_refused(&authorization("")));
    assert!(is_refused(&authorization(r#","yParity":null,"v":"0x1""#)));
    assert!(!is_refused(&authorization(r#","v":"0x1""#)));
}
