//! Read an object: dispatch its keys, judge its fields, and keep the keys without a column.

use std::borrow::Cow;

use crate::json::{Fault, Read, Reader};
use crate::parse::keys::{Key, Order};

const RESERVED: &[u8] = b"(extra)";

/// What is malformed in a row, if anything: an object and a key of it.
pub type Flaw = Option<(&'static str, &'static str)>;

/// A key and its value, as it was sent.
pub type Kept<'a> = (Cow<'a, [u8]>, &'a [u8]);

/// The keys without a column of all rows of a kind, in an answer that is read in full.
#[derive(Default)]
pub struct KeptRows<'a> {
    keys: Vec<Kept<'a>>,
    ends: Vec<usize>,
}

impl<'a> KeptRows<'a> {
    /// The keys of a row, in the order in which they were sent.
    pub fn of(&self, row: usize) -> &[Kept<'a>] {
        let Some(&end) = self.ends.get(row) else {
            return &[];
        };
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.keys[start..end]
    }

    /// Forget all but the first rows.
    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.keys.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

/// The state of parsing one answer.
pub struct Parser<'a, 'o> {
    pub json: Reader<'a>,
    pub arena: &'o mut Vec<u8>,
    /// Whether to keep the keys without a column.
    pub full: bool,
}

impl<'a, 'o> Parser<'a, 'o> {
    pub fn new(text: &'a [u8], arena: &'o mut Vec<u8>, full: bool) -> Read<Self> {
        Ok(Self {
            json: Reader::new(text)?,
            arena,
            full,
        })
    }

    /// Refuse the answer if a row is malformed, or if anything follows.
    pub fn finish(self, flaw: Flaw) -> Read<()> {
        self.json.finish()?;
        match flaw {
            None => Ok(()),
            Some((object, key)) => Err(Fault::new(format!("`{key}` in a {object} is malformed"))),
        }
    }

    /// Read an object. `field` reads the value of a key, and returns whether it is well formed.
    #[inline]
    pub fn object<K: Key>(
        &mut self,
        order: &mut Order<'a, K>,
        kept: &mut KeptRows<'a>,
        mut field: impl FnMut(&mut Self, K) -> Read<bool>,
    ) -> Read<Flaw> {
        let (mut given, mut malformed, mut is_reserved) = (0, 0, false);
        let mut more = self.json.open_object()?;
        let mut position = 0;
        while more {
            self.json.peek();
            let member = order.member(position, &mut self.json)?;
            position += 1;
            self.json.peek();
            let value = self.json.mark();
            let mut keep = self.full;
            if let Some(key) = member.key {
                let is_good = field(self, key)?;
                given |= key.bit();
                malformed = malformed & !key.bit() | u64::from(!is_good) << key.at();
                keep &= K::COPIES & key.bit() != 0;
            } else {
                self.json.skip()?;
                is_reserved |= *member.name == *RESERVED;
            }
            if keep {
                kept.keys
                    .push((member.name.clone(), self.json.since(value)));
            }
            more = self.json.more_members()?;
        }
        if self.full {
            kept.ends.push(kept.keys.len());
        }
        let absent = K::REQUIRED & !given;
        if absent != 0 {
            let key = K::NAMES[absent.trailing_zeros() as usize];
            return Err(Fault::new(format!("a {} has no `{key}`", K::OBJECT)));
        }
        let flawed = K::NAMES.get(malformed.trailing_zeros() as usize).copied();
        Ok(flawed
            .or(is_reserved.then_some("(extra)"))
            .map(|key| (K::OBJECT, key)))
    }

    /// Read a list; `item` reads each item, and returns what is malformed in it.
    #[inline]
    pub fn list(&mut self, mut item: impl FnMut(&mut Self) -> Read<Flaw>) -> Read<Flaw> {
        let mut flaw = None;
        let mut more = self.json.open_list()?;
        while more {
            flaw = flaw.or(item(self)?);
            more = self.json.more_items()?;
        }
        Ok(flaw)
    }
}
