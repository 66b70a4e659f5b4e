//! Parse a transaction.

use crate::forms::{Bytes, Kind, U64, Word};
use crate::json::Read;
use crate::model::Transaction;
use crate::parse::keys::{Order, keys};
use crate::parse::object::{Flaw, KeptRows, Parser};

keys!(TransactionKey, "transaction",
    {Hash "hash", BlockHash "blockHash", BlockNumber "blockNumber",
     TransactionIndex "transactionIndex", From "from", Nonce "nonce", Gas "gas"},
    {To "to", Type "type", Value "value", GasPrice "gasPrice", MaxFeePerGas "maxFeePerGas",
     MaxPriorityFeePerGas "maxPriorityFeePerGas", MaxFeePerBlobGas "maxFeePerBlobGas",
     Mint "mint", Input "input", V "v", YParity "yParity", R "r", S "s", ChainId "chainId",
     AccessList "accessList", AuthorizationList "authorizationList",
     BlobVersionedHashes "blobVersionedHashes", SourceHash "sourceHash",
     IsSystemTx "isSystemTx"},
    copies: [BlockHash, BlockNumber, TransactionIndex]);

/// The order of the keys of transactions.
#[derive(Default)]
pub struct TransactionOrder<'a>(Order<'a, TransactionKey>);

impl<'a> Parser<'a, '_> {
    pub fn transaction(
        &mut self,
        order: &mut TransactionOrder<'a>,
        kept: &mut KeptRows<'a>,
        row: &mut Transaction,
    ) -> Read<Flaw> {
        use TransactionKey as Key;
        self.object(&mut order.0, kept, |it, key| match key {
            Key::Hash => it.required::<Bytes<32>>(&mut row.hash),
            Key::BlockHash => it.required::<Bytes<32>>(&mut row.block_hash),
            Key::BlockNumber => it.required::<U64>(&mut row.block_number),
            Key::TransactionIndex => it.required::<U64>(&mut row.transaction_index),
            Key::From => it.required::<Bytes<20>>(&mut row.from),
            Key::Nonce => it.required::<U64>(&mut row.nonce),
            Key::Gas => it.required::<U64>(&mut row.gas),
            Key::To => it.optional::<Bytes<20>>(&mut row.to),
            Key::Type => it.optional::<Kind>(&mut row.kind),
            Key::Value => it.optional::<Word>(&mut row.value),
            Key::GasPrice => it.optional::<Word>(&mut row.gas_price),
            Key::MaxFeePerGas => it.optional::<Word>(&mut row.max_fee_per_gas),
            Key::MaxPriorityFeePerGas => it.optional::<Word>(&mut row.max_priority_fee_per_gas),
            Key::MaxFeePerBlobGas => it.optional::<Word>(&mut row.max_fee_per_blob_gas),
            Key::Mint => it.optional::<Word>(&mut row.mint),
            Key::Input => it.optional_data(&mut row.input),
            Key::V => it.optional::<U64>(&mut row.v),
            Key::YParity => it.optional::<U64>(&mut row.y_parity),
            Key::R => it.optional::<Word>(&mut row.r),
            Key::S => it.optional::<Word>(&mut row.s),
            Key::ChainId => it.optional::<Word>(&mut row.chain_id),
            Key::AccessList => it.json_list(&mut row.access_list, Self::access_list),
            Key::AuthorizationList => {
                it.json_list(&mut row.authorization_list, Self::authorization_list)
            }
            Key::BlobVersionedHashes => {
                if it.json.null()? {
                    row.blob_versioned_hashes = None;
                    return Ok(true);
                }
                it.hashes(row.blob_versioned_hashes.get_or_insert_default())
            }
            Key::SourceHash => it.optional::<Bytes<32>>(&mut row.source_hash),
            Key::IsSystemTx => it.optional_bool(&mut row.is_system_tx),
        })
    }
}
