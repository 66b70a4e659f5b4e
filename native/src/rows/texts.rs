//! Read the columns that hold JSON.
//!
//! What a text says is restored from it, and written again when the rows are decoded. A text of
//! `extra` is not written again, so it must have the notation in which it would be written.

use std::borrow::Cow;

use crate::json::{Read, Reader};
use crate::model::{AccessList, AuthorizationList, ExtraKey, Hash, Slice};
use crate::parse::{Parser, write_object};

/// The members of an object, each with its value as JSON.
pub type Members<'a> = Vec<(Cow<'a, [u8]>, &'a [u8])>;

pub fn hashes(text: &[u8], arena: &mut Vec<u8>) -> Option<Vec<Hash>> {
    let mut found = Vec::new();
    let mut parser = Parser::new(text, arena, false).ok()?;
    let is_good = parser.hashes(&mut found).ok()?;
    parser.finish(None).ok()?;
    is_good.then_some(found)
}

pub fn access_list(text: &[u8], arena: &mut Vec<u8>) -> Option<AccessList> {
    list(text, arena, |parser| parser.access_list())
}

pub fn authorization_list(text: &[u8], arena: &mut Vec<u8>) -> Option<AuthorizationList> {
    list(text, arena, |parser| parser.authorization_list())
}

fn list<T>(
    text: &[u8],
    arena: &mut Vec<u8>,
    read: impl FnOnce(&mut Parser) -> Read<T>,
) -> Option<T> {
    let mut parser = Parser::new(text, arena, false).ok()?;
    let found = read(&mut parser).ok()?;
    parser.finish(None).ok()?;
    Some(found)
}

/// Return the members of an object in the notation of `write_object`; `None` if it has another.
pub fn members(text: &[u8]) -> Option<Members<'_>> {
    let mut found = read_members(text).ok()?;
    let mut again = Vec::with_capacity(text.len());
    write_object(&mut again, &mut found);
    (!found.is_empty() && again == text).then_some(found)
}

fn read_members(text: &[u8]) -> Read<Members<'_>> {
    let mut json = Reader::new(text)?;
    let mut found = Members::new();
    let mut more = json.open_object()?;
    while more {
        let key = json.key()?;
        found.push((key, json.raw()?));
        more = json.more_members()?;
    }
    json.finish()?;
    Ok(found)
}

/// Copy an `extra` that holds only keys without a column; a null one becomes an empty slice.
pub fn extra(text: Option<&[u8]>, arena: &mut Vec<u8>) -> Option<Slice> {
    let Some(text) = text else {
        return Some(Slice::default());
    };
    members(text)?;
    Some(store(arena, text))
}

pub fn extra_keys(text: Option<&[u8]>, arena: &mut Vec<u8>) -> Option<Vec<ExtraKey>> {
    let found = text.map_or_else(|| Some(Members::new()), members)?;
    let keys = found.into_iter();
    let keep = |(key, value): (Cow<[u8]>, &[u8])| ExtraKey {
        key: store(arena, &key),
        value: store(arena, value),
    };
    Some(keys.map(keep).collect())
}

pub fn store(arena: &mut Vec<u8>, bytes: &[u8]) -> Slice {
    let start = arena.len();
    arena.extend_from_slice(bytes);
    Slice::between(start, arena.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_members_only_in_the_notation_in_which_they_are_written() {
        let found = members(br#"{"a":1,"b":{"c": 2}}"#).unwrap();
        assert_eq!(found[1].1, br#"{"c": 2}"#);
        let others = [
            "",
            "{}",
            "null",
            r#"{"b":1,"a":1}"#,
            r#"{"a": 1}"#,
            r#"{"a":1,"a":1}"#,
        ];
        for text in others.into_iter().chain([r#"{"\u0061":1}"#, r#"{"a":1} "#]) {
            assert!(members(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn reads_lists_of_hashes() {
        let mut arena = Vec::new();
        assert_eq!(hashes(b"[]", &mut arena), Some(vec![]));
        let text = format!("[\"0x{}\"]", "ab".repeat(32));
        assert_eq!(hashes(text.as_bytes(), &mut arena), Some(vec![[0xab; 32]]));
        for text in ["null", "[1]", "[\"0x\"]", "[] []", ""] {
            assert_eq!(hashes(text.as_bytes(), &mut arena), None, "{text}");
        }
    }
}
