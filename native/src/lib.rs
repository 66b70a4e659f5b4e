//! The compiled core of Gapless: raw answers of nodes in, Arrow tables, proofs and refusals out.
//!
//! It opens no file, socket or database, starts no thread, and holds Python's lock only to
//! exchange arguments and results. The Python code of `gapless.chains.evm` is the reference: for any
//! bytes, both must give the same tables, proofs, refused heights and error codes.

pub mod bloom;
pub mod checks;
pub mod columns;
pub mod completion;
pub mod copying;
pub mod digest;
pub mod encoding;
pub mod envelope;
mod extra_keys;
pub mod extras;
pub mod forms;
pub mod header;
pub mod json;
pub mod keccak;
pub mod model;
pub mod parse;
pub mod placement;
#[cfg(feature = "python")]
mod python;
#[cfg(feature = "python")]
mod python_copying;
#[cfg(feature = "python")]
mod python_envelope;
#[cfg(feature = "python")]
mod python_rows;
#[cfg(feature = "python")]
mod python_values;
pub mod read;
pub mod rlp;
pub mod row_values;
pub mod rows;
pub mod tables;
pub mod trie;
pub mod verdict;

/// Which functions there are and what they return; `gapless.schema.native` names the same. Raise the
/// number in both whenever that changes between two releases.
pub const RULES: &str = concat!(env!("CARGO_PKG_VERSION"), "+1");
