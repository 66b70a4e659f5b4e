//! Copies: keys without a column whose value follows from the row, if it is what is implied.

use crate::forms::{write_hex, write_quantity};
use crate::json::Reader;
use crate::model::{Block, Bloom, Transaction};
use crate::parse::Kept;

/// What rows imply, by key.
#[derive(Default)]
pub struct Implied(Vec<Copied>);

struct Copied {
    key: &'static [u8],
    /// The usual notation, as JSON.
    json: Vec<u8>,
    /// The decimal notation of a quantity, which some nodes use for timestamps.
    decimal: Option<String>,
}

impl Implied {
    /// What everything in a block implies.
    pub fn of_block(block: &Block) -> Self {
        let mut implied = Self::default();
        implied.bytes(b"blockHash", &block.hash);
        implied.quantity(b"blockNumber", block.number);
        implied.quantity(b"blockTimestamp", block.timestamp);
        implied
    }

    pub fn of_position(at: u64) -> Self {
        let mut implied = Self::default();
        implied.quantity(b"transactionIndex", at);
        implied
    }

    /// What a transaction implies about its receipt and its logs.
    pub fn of_transaction(row: &Transaction) -> Self {
        let mut implied = Self::of_position(row.transaction_index);
        implied.bytes(b"transactionHash", &row.hash);
        implied
    }

    /// What only a receipt repeats.
    pub fn of_receipt(row: &Transaction, bloom: &Bloom) -> Self {
        let mut implied = Self::default();
        implied.bytes(b"from", &row.from);
        match &row.to {
            Some(to) => implied.bytes(b"to", to),
            None => implied.add(b"to", b"null".to_vec()),
        }
        match row.kind {
            Some(kind) => implied.quantity(b"type", kind.into()),
            None => implied.add(b"type", b"null".to_vec()),
        }
        implied.bytes(b"logsBloom", bloom);
        implied
    }

    /// What only a log has.
    pub fn of_log() -> Self {
        let mut implied = Self::default();
        implied.add(b"removed", b"false".to_vec());
        implied
    }

    /// Whether a key is a copy, and its value the implied one.
    pub fn covers(&self, (key, value): &Kept) -> bool {
        self.0
            .iter()
            .find(|copied| copied.key == &**key)
            .is_some_and(|copied| copied.equals(value))
    }

    fn bytes(&mut self, key: &'static [u8], bytes: &[u8]) {
        let mut json = vec![b'"'];
        write_hex(&mut json, bytes);
        json.push(b'"');
        self.add(key, json);
    }

    fn quantity(&mut self, key: &'static [u8], number: u64) {
        let mut word = [0; 32];
        word[24..].copy_from_slice(&number.to_be_bytes());
        let mut json = vec![b'"'];
        write_quantity(&mut json, &word);
        json.push(b'"');
        let decimal = Some(number.to_string());
        self.0.push(Copied { key, json, decimal });
    }

    fn add(&mut self, key: &'static [u8], json: Vec<u8>) {
        self.0.push(Copied {
            key,
            json,
            decimal: None,
        });
    }
}

impl Copied {
    fn equals(&self, given: &[u8]) -> bool {
        // Only a string can have other letters than these, because literals have one notation.
        if given.eq_ignore_ascii_case(&self.json) {
            return true;
        }
        if given.starts_with(b"\"") {
            return given.contains(&b'\\') && self.equals_text(given);
        }
        self.decimal
            .as_ref()
            .is_some_and(|decimal| given == decimal.as_bytes())
    }

    /// Compare a string after decoding its escapes.
    fn equals_text(&self, given: &[u8]) -> bool {
        let text = Reader::new(given).and_then(|mut reader| reader.text());
        let [b'"', implied @ .., b'"'] = &self.json[..] else {
            return false;
        };
        text.is_ok_and(|text| text.eq_ignore_ascii_case(implied))
    }
}
