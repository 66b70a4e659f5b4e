//! Parse access lists and authorization lists, and write them as the JSON of their columns.
//!
//! Items have no column of their own, so keys that no table names are kept in that JSON.

use std::borrow::Cow;

use crate::forms::{self, Bytes, Form, U64, Word};
use crate::json::{Fault, Read, write_text};
use crate::model::{AccessEntry, AccessList, Authorization, AuthorizationList};
use crate::parse::object::Parser;

/// The members of an item, each with its value as JSON.
type Members<'a> = Vec<(Cow<'a, [u8]>, Cow<'a, [u8]>)>;

impl<'a> Parser<'a, '_> {
    /// Read a list or null.
    ///
    /// Whatever is wrong with the list is a wrong form, so that a later value can replace it. Only
    /// invalid JSON is refused at once.
    pub fn json_list<T>(
        &mut self,
        into: &mut Option<T>,
        parse: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<bool> {
        *into = None;
        if self.json.null()? {
            return Ok(true);
        }
        let start = self.json.mark();
        match parse(self) {
            Ok(list) => *into = Some(list),
            Err(_) => {
                self.json.rewind(start);
                self.json.skip()?;
            }
        }
        Ok(into.is_some())
    }

    pub fn access_list(&mut self) -> Read<AccessList> {
        let mut list = AccessList::default();
        let mut text = vec![b'['];
        let mut more = self.json.open_list()?;
        while more {
            let (entry, members) = self.access_entry()?;
            write_item(&mut text, members);
            list.entries.push(entry);
            more = self.json.more_items()?;
        }
        list.text = self.store_list(text);
        Ok(list)
    }

    pub fn authorization_list(&mut self) -> Read<AuthorizationList> {
        let mut list = AuthorizationList::default();
        let mut text = vec![b'['];
        let mut more = self.json.open_list()?;
        while more {
            let (entry, members) = self.authorization()?;
            write_item(&mut text, members);
            list.entries.push(entry);
            more = self.json.more_items()?;
        }
        list.text = self.store_list(text);
        Ok(list)
    }

    fn access_entry(&mut self) -> Read<(AccessEntry, Members<'a>)> {
        let (mut address, mut storage_keys) = (None, None);
        let mut members = Members::new();
        let mut more = self.json.open_object()?;
        while more {
            let key = self.json.key()?;
            match &*key {
                b"address" => address = Some(self.json.text()?),
                b"storageKeys" => storage_keys = Some(self.texts()?),
                _ => members.push((key, Cow::Borrowed(self.json.raw()?))),
            }
            more = self.json.more_members()?;
        }
        let address = given(address)?;
        let mut entry = AccessEntry {
            address: value::<Bytes<20>>(&address)?,
            ..Default::default()
        };
        let mut keys = vec![b'['];
        for text in given(storage_keys)? {
            entry.storage_keys.push(value::<Bytes<32>>(&text)?);
            separate(&mut keys);
            write_lower(&mut keys, &text);
        }
        keys.push(b']');
        members.push((Cow::Borrowed(b"address"), lower(&address)));
        members.push((Cow::Borrowed(b"storageKeys"), Cow::Owned(keys)));
        Ok((entry, members))
    }

    fn authorization(&mut self) -> Read<(Authorization, Members<'a>)> {
        const KEYS: [&[u8]; 7] = [
            b"chainId", b"address", b"nonce", b"r", b"s", b"yParity", b"v",
        ];
        let mut found: [Option<Cow<'a, [u8]>>; 7] = Default::default();
        let mut members = Members::new();
        let mut more = self.json.open_object()?;
        while more {
            let key = self.json.key()?;
            match KEYS.iter().position(|known| *known == &*key) {
                Some(at) => found[at] = Some(self.json.text()?),
                None => members.push((key, Cow::Borrowed(self.json.raw()?))),
            }
            more = self.json.more_members()?;
        }
        for (key, text) in KEYS.iter().zip(&found) {
            members.extend(text.as_ref().map(|text| (Cow::Borrowed(*key), lower(text))));
        }
        let [chain_id, address, nonce, r, s, parity, v] = found;
        let parities = [parity, v].map(|text| text.map(|text| value::<U64>(&text)).transpose());
        let [parity, v] = parities;
        let entry = Authorization {
            chain_id: value::<Word>(&given(chain_id)?)?,
            address: value::<Bytes<20>>(&given(address)?)?,
            nonce: value::<U64>(&given(nonce)?)?,
            parity: given(parity?.or(v?))?,
            r: value::<Word>(&given(r)?)?,
            s: value::<Word>(&given(s)?)?,
        };
        Ok((entry, members))
    }

    fn texts(&mut self) -> Read<Vec<Cow<'a, [u8]>>> {
        let mut texts = Vec::new();
        let mut more = self.json.open_list()?;
        while more {
            texts.push(self.json.text()?);
            more = self.json.more_items()?;
        }
        Ok(texts)
    }

    fn store_list(&mut self, mut text: Vec<u8>) -> crate::model::Slice {
        text.push(b']');
        let start = self.arena.len();
        self.arena.extend_from_slice(&text);
        self.slice_from(start)
    }
}

/// Write a list of hashes as JSON.
pub fn write_hashes(out: &mut Vec<u8>, hashes: &[[u8; 32]]) {
    out.push(b'[');
    for (at, hash) in hashes.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.push(b'"');
        forms::write_hex(out, hash);
        out.push(b'"');
    }
    out.push(b']');
}

/// Write an object: keys in order, of equal ones the last.
pub fn write_object<K: AsRef<[u8]>, V: AsRef<[u8]>>(out: &mut Vec<u8>, members: &mut [(K, V)]) {
    members.sort_by(|one, other| one.0.as_ref().cmp(other.0.as_ref()));
    out.push(b'{');
    let start = out.len();
    for (at, (key, value)) in members.iter().enumerate() {
        if members
            .get(at + 1)
            .is_some_and(|next| next.0.as_ref() == key.as_ref())
        {
            continue;
        }
        if out.len() > start {
            out.push(b',');
        }
        write_text(out, key.as_ref());
        out.push(b':');
        out.extend_from_slice(value.as_ref());
    }
    out.push(b'}');
}

fn write_item(text: &mut Vec<u8>, mut members: Members) {
    separate(text);
    write_object(text, &mut members);
}

/// Write a comma unless the list has just been opened.
fn separate(list: &mut Vec<u8>) {
    if list.len() > 1 {
        list.push(b',');
    }
}

fn given<T>(found: Option<T>) -> Read<T> {
    found.ok_or_else(|| Fault::new("an item lacks a key"))
}

fn value<F: Form>(text: &[u8]) -> Read<F::Value> {
    let mut found = F::EMPTY;
    match F::read(text, &mut found) {
        Some(length) if length == text.len() => Ok(found),
        _ => Err(Fault::new("an item is malformed")),
    }
}

/// The text in quotes, in lower case; it is hex, so that it has no escapes.
fn lower(text: &[u8]) -> Cow<'static, [u8]> {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_lower(&mut out, text);
    Cow::Owned(out)
}

fn write_lower(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    out.extend(text.iter().map(u8::to_ascii_lowercase));
    out.push(b'"');
}
