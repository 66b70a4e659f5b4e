//! Parse the answers for a block: types are checked as they are read, and forms are judged at the end.
//!
//! Of equal keys in one object, the last one counts. So a value of a wrong form is not refused at
//! once, since a later one may replace it; a value of a wrong type is. Rows therefore return what is
//! malformed in them, and only the answer as a whole refuses it.

mod block;
mod keys;
mod lists;
mod log;
mod object;
mod receipt;
#[cfg(test)]
mod tests;
mod transaction;
mod values;

pub use block::{KeptBlock, parse_block};
pub use lists::{write_hashes, write_object};
pub use log::parse_range_logs;
pub use object::{Kept, KeptRows};
pub use receipt::{TEXTS, parse_receipts};
