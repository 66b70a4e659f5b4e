//! The table `withdrawals`.

use crate::columns::{Columns, Kind};
use crate::model::Withdrawal;
use crate::tables::{Accepted, Row, add_place, extra};

pub fn columns(blocks: &[Accepted], chain_id: u64) -> Columns {
    let rows = &rows(blocks);
    let all = || rows.iter().map(|it| it.row);
    let mut add = Columns::default();
    add_place(&mut add, rows, chain_id, |add| {
        add.int("withdrawal_position", rows.iter().map(|it| it.at));
    });
    add.int("withdrawal_index", all().map(|it| it.index));
    add.int("validator_index", all().map(|it| it.validator_index));
    add.fixed("address", Kind::Address, all().map(|it| &it.address));
    add.int("amount", all().map(|it| it.amount));
    add.optional_json(
        "extra",
        rows.iter().map(|it| extra(it.answer, it.row.extra)),
    );
    add
}

fn rows(blocks: &[Accepted]) -> Vec<Row<'_, &Withdrawal>> {
    let mut rows = Vec::new();
    for Accepted { answer, .. } in blocks {
        let of_block = answer.block.withdrawals.iter().flatten();
        rows.extend((0..).zip(of_block).map(|(at, row)| Row { answer, at, row }));
    }
    rows
}
