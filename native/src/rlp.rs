//! RLP, the canonical encoding that EVM chains hash, appended to a buffer.
//!
//! Prefixes contain the size of what follows. Sizes of lists are computed before they are written;
//! only the prefixes of a whole item are written last, into room that was left before it.

use std::ops::Range;

use crate::model::{Address, Bloom, Hash, U256};

pub const EMPTY_STRING: u8 = 0x80;
pub const EMPTY_LIST: u8 = 0xc0;

const LONG: usize = 56; // from this size on, the prefix contains the size in separate bytes
const STRING: u8 = 0x80;
const LIST: u8 = 0xc0;

/// Encoded sizes of values that always have the same size.
pub const ADDRESS_SIZE: usize = 21;
pub const WORD_SIZE: usize = 33;

/// A prefix; its bytes are the last `len` ones, so that it can also be written backwards.
struct Head {
    bytes: [u8; 9],
    len: usize,
}

impl Head {
    fn new(kind: u8, size: usize) -> Self {
        let mut bytes = [0; 9];
        if size < LONG {
            bytes[8] = kind + size as u8;
            return Self { bytes, len: 1 };
        }
        let width = byte_count(size as u64);
        bytes[1..].copy_from_slice(&(size as u64).to_be_bytes());
        bytes[8 - width] = kind + (LONG - 1 + width) as u8;
        Self {
            bytes,
            len: 1 + width,
        }
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[9 - self.len..]
    }
}

pub fn string_head(out: &mut Vec<u8>, size: usize) {
    out.extend_from_slice(Head::new(STRING, size).as_slice());
}

pub fn list_head(out: &mut Vec<u8>, size: usize) {
    out.extend_from_slice(Head::new(LIST, size).as_slice());
}

/// Append a number, which has no leading zeros in RLP.
pub fn number(out: &mut Vec<u8>, value: u64) {
    string(out, &value.to_be_bytes()[8 - byte_count(value)..]);
}

pub fn big_number(out: &mut Vec<u8>, value: &U256) {
    let zeros = value.iter().take_while(|&&byte| byte == 0).count();
    string(out, &value[zeros..]);
}

pub fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    if !matches!(bytes, [byte] if *byte < STRING) {
        string_head(out, bytes.len());
    }
    out.extend_from_slice(bytes);
}

pub fn word(out: &mut Vec<u8>, value: &Hash) {
    out.push(STRING + 32);
    out.extend_from_slice(value);
}

pub fn address(out: &mut Vec<u8>, value: &Address) {
    out.push(STRING + 20);
    out.extend_from_slice(value);
}

pub fn bloom(out: &mut Vec<u8>, value: &Bloom) {
    string_head(out, value.len());
    out.extend_from_slice(value);
}

/// Append a list of words.
pub fn words(out: &mut Vec<u8>, values: &[Hash]) {
    list_head(out, values.len() * WORD_SIZE);
    values.iter().for_each(|value| word(out, value));
}

/// The encoded size of a string.
pub fn string_size(bytes: &[u8]) -> usize {
    match bytes {
        [byte] if *byte < STRING => 1,
        _ => sized(bytes.len()),
    }
}

/// The size of `size` bytes with their prefix, as a list or a string of more than one byte.
pub fn sized(size: usize) -> usize {
    if size < LONG {
        1 + size
    } else {
        1 + byte_count(size as u64) + size
    }
}

/// Append a list of variable sizes: it is moved once its size is known. For lists that are rare.
pub fn list(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    write(out);
    let head = Head::new(LIST, out.len() - start);
    out.splice(start..start, head.as_slice().iter().copied());
}

/// Room that suffices for all prefixes of an item: type, list, string, path of a leaf, list.
const ROOM: usize = 48;

/// Append an item of a block: a list, prefixed with its type if that is not 0, with room before it.
///
/// Return where the item is.
pub fn envelope<E>(
    out: &mut Vec<u8>,
    kind: u8,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<Range<usize>, E> {
    out.resize(out.len() + ROOM, 0);
    let payload = out.len();
    write(out)?;
    let end = out.len();
    let mut start = list_head_before(out, payload..end);
    if kind != 0 {
        start -= 1;
        out[start] = kind;
    }
    Ok(start..end)
}

/// Write the prefixes that make an item a leaf of a trie; return where the leaf is.
///
/// `path` is the leaf's path as it is encoded in the node.
pub fn leaf(out: &mut [u8], item: &Range<usize>, path: &[u8]) -> Range<usize> {
    let mut start = write_before(out, item.start, STRING, item.len());
    start -= path.len();
    out[start..start + path.len()].copy_from_slice(path);
    start = write_before(out, start, LIST, item.end - start);
    start..item.end
}

/// Write the prefix of a list before its members; return where the list starts.
pub fn list_head_before(out: &mut [u8], members: Range<usize>) -> usize {
    write_before(out, members.start, LIST, members.len())
}

fn write_before(out: &mut [u8], end: usize, kind: u8, size: usize) -> usize {
    let head = Head::new(kind, size);
    let start = end - head.len;
    out[start..end].copy_from_slice(head.as_slice());
    start
}

fn byte_count(value: u64) -> usize {
    (64 - value.leading_zeros() as usize).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    #[test]
    fn encodes_numbers_without_leading_zeros() {
        assert_eq!(encoded(|out| number(out, 0)), [0x80]);
        assert_eq!(encoded(|out| number(out, 0x7f)), [0x7f]);
        assert_eq!(encoded(|out| number(out, 0x80)), [0x81, 0x80]);
        assert_eq!(encoded(|out| number(out, 1024)), [0x82, 0x04, 0x00]);
        let mut big = [0; 32];
        big[31] = 5;
        assert_eq!(encoded(|out| big_number(out, &big)), [5]);
        big[0] = 1;
        assert_eq!(encoded(|out| big_number(out, &big)).len(), 33);
        assert_eq!(encoded(|out| big_number(out, &[0; 32])), [0x80]);
    }

    #[test]
    fn encodes_strings_of_every_size_class() {
        assert_eq!(encoded(|out| string(out, b"")), [0x80]);
        assert_eq!(encoded(|out| string(out, b"dog")), *b"\x83dog");
        assert_eq!(encoded(|out| string(out, &[0x80])), [0x81, 0x80]);
        for (size, head) in [
            (55, &[0xb7u8][..]),
            (56, &[0xb8, 56]),
            (256, &[0xb9, 1, 0]),
            (65536, &[0xba, 1, 0, 0]),
        ] {
            let bytes = vec![9; size];
            let text = encoded(|out| string(out, &bytes));
            assert_eq!(text, [head, &bytes].concat());
            assert_eq!(text.len(), string_size(&bytes));
        }
        assert_eq!(string_size(&[0x7f]), 1);
        assert_eq!(string_size(&[0x80]), 2);
    }

    #[test]
    fn encodes_lists() {
        let short = encoded(|out| list(out, |out| string(out, b"cat")));
        assert_eq!(short, *b"\xc4\x83cat");
        let long = encoded(|out| list(out, |out| string(out, &[1; 60])));
        assert_eq!(long[..4], [0xf8, 62, 0xb8, 60]);
        assert_eq!(encoded(|out| words(out, &[])), [EMPTY_LIST]);
    }

    #[test]
    fn writes_the_prefixes_of_an_item_before_it() {
        let mut out = vec![7; 3];
        let item = envelope::<()>(&mut out, 2, |out| {
            string(out, b"dog");
            Ok(())
        });
        let item = item.unwrap();
        assert_eq!(out[item.clone()], *b"\x02\xc4\x83dog");
        let leaf = leaf(&mut out, &item, &[0x20]);
        assert_eq!(out[leaf], *b"\xc8\x20\x86\x02\xc4\x83dog");
    }
}
