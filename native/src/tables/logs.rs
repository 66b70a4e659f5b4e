//! The table `logs`, from receipts or from `eth_getLogs`.

use crate::columns::{Columns, Kind};
use crate::model::{Answer, Hash, Log};
use crate::placement::paired;
use crate::tables::{Accepted, Row, add_place, extra};

struct LogRow<'a> {
    log: &'a Log,
    transaction_index: u64,
    transaction_hash: &'a Hash,
}

pub fn columns(blocks: &[Accepted], chain_id: u64) -> Columns {
    let rows = &rows(blocks);
    let all = || rows.iter().map(|it| it.row.log);
    let mut add = Columns::default();
    add_place(&mut add, rows, chain_id, |add| {
        add.int(
            "transaction_index",
            rows.iter().map(|it| it.row.transaction_index),
        );
        add.int("log_position", rows.iter().map(|it| it.at));
    });
    add.int("log_index", all().map(|it| it.log_index));
    let hashes = rows.iter().map(|it| it.row.transaction_hash);
    add.fixed("transaction_hash", Kind::Hash, hashes);
    add.fixed("address", Kind::Address, all().map(|it| &it.address));
    for (place, name) in ["topic0", "topic1", "topic2", "topic3"]
        .into_iter()
        .enumerate()
    {
        add.optional_fixed(name, Kind::Hash, all().map(|it| it.topics().get(place)));
    }
    add.bytes(
        "data",
        rows.iter().map(|it| it.answer.bytes(it.row.log.data)),
    );
    add.optional_json(
        "extra",
        rows.iter().map(|it| extra(it.answer, it.row.log.extra)),
    );
    add
}

fn rows(blocks: &[Accepted]) -> Vec<Row<'_, LogRow<'_>>> {
    let mut rows = Vec::new();
    for Accepted { answer, pairs } in blocks {
        for (index, (transaction, receipt)) in (0..).zip(paired(answer, pairs)) {
            for (at, log) in (0..).zip(receipt.map_or(&[][..], |it| answer.logs_of(it))) {
                let (transaction_index, transaction_hash) = (index, &transaction.hash);
                rows.push(Row {
                    answer,
                    at,
                    row: LogRow {
                        log,
                        transaction_index,
                        transaction_hash,
                    },
                });
            }
        }
        if answer.receipts.is_none() {
            push_range_logs(&mut rows, answer);
        }
    }
    rows
}

/// Add the logs of a block without receipts; positions are counted in each transaction.
fn push_range_logs<'a>(rows: &mut Vec<Row<'a, LogRow<'a>>>, answer: &'a Answer) {
    let logs = answer.range.as_ref().map_or(&[][..], |range| &range.logs);
    let mut before = None;
    let mut at = 0;
    for it in logs {
        at = if before == Some(it.transaction_index) {
            at + 1
        } else {
            0
        };
        before = Some(it.transaction_index);
        let (transaction_index, transaction_hash) = (it.transaction_index, &it.transaction_hash);
        let row = LogRow {
            log: &it.log,
            transaction_index,
            transaction_hash,
        };
        rows.push(Row { answer, at, row });
    }
}
