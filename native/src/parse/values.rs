//! Read the value of a field in its form.
//!
//! The usual text is decoded where it stands. A text that does not have its form there may still
//! have it after its escapes are decoded; otherwise it is a string of a wrong form, or no string.

use crate::forms::{self, Bytes, Form};
use crate::json::Read;
use crate::model::{Bloom, Hash, Slice};
use crate::parse::object::{Flaw, Parser};

impl Parser<'_, '_> {
    /// Read a text; return whether it has the form.
    #[inline]
    pub fn required<F: Form>(&mut self, into: &mut F::Value) -> Read<bool> {
        if let [b'"', text @ ..] = self.json.rest()
            && let Some(length) = F::read(text, into)
            && text.get(length) == Some(&b'"')
        {
            self.json.advance(length + 2);
            return Ok(true);
        }
        let text = self.json.text()?;
        Ok(F::read(&text, into) == Some(text.len()))
    }

    /// Read a text or null.
    #[inline]
    pub fn optional<F: Form>(&mut self, into: &mut Option<F::Value>) -> Read<bool> {
        if self.json.null()? {
            *into = None;
            return Ok(true);
        }
        self.required::<F>(into.insert(F::EMPTY))
    }

    pub fn optional_bloom(&mut self, into: &mut Option<Box<Bloom>>) -> Read<bool> {
        if self.json.null()? {
            *into = None;
            return Ok(true);
        }
        self.required::<Bytes<256>>(into.insert(Box::new([0; 256])))
    }

    #[inline]
    pub fn required_data(&mut self, into: &mut Slice) -> Read<bool> {
        let start = self.arena.len();
        let mut is_good = false;
        if let [b'"', rest @ ..] = self.json.rest()
            && let Some(length) = memchr::memchr(b'"', rest)
            && forms::append_data(&rest[..length], self.arena)
        {
            self.json.advance(length + 2);
            is_good = true;
        }
        if !is_good {
            self.arena.truncate(start);
            is_good = forms::append_data(&self.json.text()?, self.arena);
        }
        *into = self.slice_from(start);
        Ok(is_good)
    }

    #[inline]
    pub fn optional_data(&mut self, into: &mut Option<Slice>) -> Read<bool> {
        if self.json.null()? {
            *into = None;
            return Ok(true);
        }
        self.required_data(into.insert(Slice::default()))
    }

    /// Read a short text that is stored as it is.
    pub fn optional_text(&mut self, into: &mut Option<Slice>) -> Read<bool> {
        if self.json.null()? {
            *into = None;
            return Ok(true);
        }
        let text = self.json.text()?;
        let start = self.arena.len();
        self.arena.extend_from_slice(&text);
        *into = Some(self.slice_from(start));
        Ok(forms::is_text(&text))
    }

    pub fn optional_bool(&mut self, into: &mut Option<bool>) -> Read<bool> {
        *into = if self.json.null()? {
            None
        } else {
            Some(self.json.boolean()?)
        };
        Ok(true)
    }

    /// Read a list of hashes.
    pub fn hashes(&mut self, into: &mut Vec<Hash>) -> Read<bool> {
        into.clear();
        let flaw = self.list(|it| {
            let mut hash = [0; 32];
            let is_good = it.required::<Bytes<32>>(&mut hash)?;
            into.push(hash);
            Ok(flaw_unless(is_good))
        })?;
        Ok(flaw.is_none())
    }

    /// The bytes of the arena since a position.
    pub fn slice_from(&self, start: usize) -> Slice {
        Slice::between(start, self.arena.len())
    }
}

/// A list has one key, so its items need no name.
pub fn flaw_unless(is_good: bool) -> Flaw {
    (!is_good).then_some(("list", "item"))
}
