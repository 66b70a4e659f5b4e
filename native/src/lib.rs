//! The compiled core of Gapless: raw answers of nodes in, Arrow tables, proofs and refusals out.
//!
//! It opens no file, socket or database, starts no thread, and holds Python's lock only to
//! exchange arguments and results. The Python code of `gapless.chains.evm` is the reference: for any
//! bytes, both must give the same tables, proofs, refused heights and error codes.

pub mod forms;
pub mod json;
pub mod keccak;
pub mod model;
pub mod parse;
pub mod rlp;
pub mod trie;
pub mod verdict;
