//! The table `transactions`: one row for a transaction and its receipt.

use crate::columns::{Columns, Kind};
use crate::model::{Answer, Receipt, Slice, Transaction};
use crate::placement::paired;
use crate::tables::{Accepted, Row, add_place, extra, hashes_text};

pub fn columns(blocks: &[Accepted], chain_id: u64) -> Columns {
    let rows = &rows(blocks);
    let all = || rows.iter().map(|it| it.row.0);
    let receipts = || rows.iter().map(|it| it.row.1);
    let mut add = Columns::default();
    add_place(&mut add, rows, chain_id, |add| {
        add.int("transaction_index", rows.iter().map(|it| it.at));
    });
    add.fixed("hash", Kind::Hash, all().map(|it| &it.hash));
    add.int("type", all().map(|it| it.kind.unwrap_or_default().into()));
    add.fixed("from_address", Kind::Address, all().map(|it| &it.from));
    add.optional_fixed("to_address", Kind::Address, all().map(|it| it.to.as_ref()));
    add.int("nonce", all().map(|it| it.nonce));
    add.int("gas", all().map(|it| it.gas));
    add.optional_u256("value", all().map(|it| it.value.as_ref()));
    let input = rows
        .iter()
        .map(|it| it.row.0.input.map(|input| it.answer.bytes(input)));
    add.optional_bytes("input", input);
    add.optional_u256("gas_price", all().map(|it| it.gas_price.as_ref()));
    add.optional_u256(
        "max_fee_per_gas",
        all().map(|it| it.max_fee_per_gas.as_ref()),
    );
    let tips = all().map(|it| it.max_priority_fee_per_gas.as_ref());
    add.optional_u256("max_priority_fee_per_gas", tips);
    add.optional_u256(
        "max_fee_per_blob_gas",
        all().map(|it| it.max_fee_per_blob_gas.as_ref()),
    );
    let access = rows.iter().map(|it| {
        it.row
            .0
            .access_list
            .as_ref()
            .map(|list| list_text(it.answer, list.text))
    });
    add.optional_json("access_list", access);
    let blobs = all().map(|it| it.blob_versioned_hashes.as_deref().map(hashes_text));
    add.optional_json("blob_versioned_hashes", blobs);
    let authorizations = rows.iter().map(|it| {
        it.row
            .0
            .authorization_list
            .as_ref()
            .map(|list| list_text(it.answer, list.text))
    });
    add.optional_json("authorization_list", authorizations);
    add.optional_int("v", all().map(|it| it.v.or(it.y_parity)));
    add.optional_fixed("r", Kind::Word, all().map(|it| it.r.as_ref()));
    add.optional_fixed("s", Kind::Word, all().map(|it| it.s.as_ref()));
    add.optional_fixed(
        "source_hash",
        Kind::Hash,
        all().map(|it| it.source_hash.as_ref()),
    );
    add.optional_u256("mint", all().map(|it| it.mint.as_ref()));
    add.optional_bool("is_system_tx", all().map(|it| it.is_system_tx));
    add.optional_int("status", receipts().map(|it| it?.status));
    add.optional_fixed("root", Kind::Hash, receipts().map(|it| it?.root.as_ref()));
    add.optional_int("gas_used", receipts().map(|it| it?.gas_used));
    add.optional_int(
        "cumulative_gas_used",
        receipts().map(|it| Some(it?.cumulative_gas_used)),
    );
    let prices = receipts().map(|it| it?.effective_gas_price.as_ref());
    add.optional_u256("effective_gas_price", prices);
    let contracts = receipts().map(|it| it?.contract_address.as_ref());
    add.optional_fixed("contract_address", Kind::Address, contracts);
    add.optional_int("log_count", receipts().map(|it| Some(it?.logs.len.into())));
    add.optional_int("blob_gas_used", receipts().map(|it| it?.blob_gas_used));
    add.optional_u256(
        "blob_gas_price",
        receipts().map(|it| it?.blob_gas_price.as_ref()),
    );
    add.optional_u256("l1_fee", receipts().map(|it| it?.l1_fee.as_ref()));
    add.optional_u256(
        "l1_gas_price",
        receipts().map(|it| it?.l1_gas_price.as_ref()),
    );
    add.optional_int("l1_gas_used", receipts().map(|it| it?.l1_gas_used));
    add.optional_int("deposit_nonce", receipts().map(|it| it?.deposit_nonce));
    let versions = receipts().map(|it| it?.deposit_receipt_version);
    add.optional_int("deposit_receipt_version", versions);
    add.optional_int("gas_used_for_l1", receipts().map(|it| it?.gas_used_for_l1));
    add.optional_int("l1_block_number", receipts().map(|it| it?.l1_block_number));
    add.optional_json(
        "extra",
        rows.iter().map(|it| extra(it.answer, it.row.0.extra)),
    );
    add
}

fn rows(blocks: &[Accepted]) -> Vec<Row<'_, (&Transaction, Option<&Receipt>)>> {
    let mut rows = Vec::new();
    for Accepted { answer, pairs } in blocks {
        rows.extend(
            (0..)
                .zip(paired(answer, pairs))
                .map(|(at, row)| Row { answer, at, row }),
        );
    }
    rows
}

/// The text of a list; one that completion has filled in has none, and no items.
fn list_text(answer: &Answer, text: Slice) -> &[u8] {
    if text.len > 0 {
        answer.bytes(text)
    } else {
        b"[]"
    }
}
