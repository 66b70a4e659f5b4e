//! A strict JSON reader that its caller pulls values from.
//!
//! `docs/reference/answers.md` demands more than general parsers promise: the whole text is
//! validated, also where it is skipped; at most 64 lists and objects are open at once; a skipped
//! value can be returned as the bytes that were sent. `sonic-rs` does not validate what it skips,
//! and `jiter` has neither that limit nor the bytes of a value without a second pass. An answer is
//! mostly long hex texts under known keys, so a reader that decodes them where they stand, without
//! looking for their end first, is also faster than both.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

pub const MOST_DEPTH: u32 = 64;

/// Why an answer cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault(pub Cow<'static, str>);

impl Fault {
    #[cold]
    pub fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub type Read<T> = Result<T, Fault>;

/// A position in a text that is valid UTF-8.
pub struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
}

/// A position that a reader can return to.
#[derive(Clone, Copy)]
pub struct Mark {
    at: usize,
    depth: u32,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a [u8]) -> Read<Self> {
        match simdutf8::basic::from_utf8(text) {
            Ok(_) => Ok(Self {
                text,
                at: 0,
                depth: 0,
            }),
            Err(_) => Err(Fault::new("it is not UTF-8")),
        }
    }

    /// Refuse anything but white space after the value.
    pub fn finish(mut self) -> Read<()> {
        self.space();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(self.unexpected("the end"))
        }
    }

    pub fn mark(&self) -> Mark {
        Mark {
            at: self.at,
            depth: self.depth,
        }
    }

    pub fn rewind(&mut self, mark: Mark) {
        self.at = mark.at;
        self.depth = mark.depth;
    }

    /// The bytes since a mark.
    pub fn since(&self, mark: Mark) -> &'a [u8] {
        &self.text[mark.at..self.at]
    }

    /// The rest of the text.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    /// Move over bytes that the caller has examined.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        self.at += count;
    }

    /// Return the first byte of the next token; 0 at the end, where no token is.
    #[inline]
    pub fn peek(&mut self) -> u8 {
        let first = self.byte();
        if first > b' ' {
            return first;
        }
        self.space();
        self.byte()
    }

    /// Enter an object; return whether it has a member.
    #[inline]
    pub fn open_object(&mut self) -> Read<bool> {
        self.open(b'{', b'}', "an object")
    }

    /// Enter a list; return whether it has an item.
    #[inline]
    pub fn open_list(&mut self) -> Read<bool> {
        self.open(b'[', b']', "a list")
    }

    /// After a member: return whether another one follows. Otherwise, the object is closed.
    #[inline]
    pub fn more_members(&mut self) -> Read<bool> {
        self.more(b'}')
    }

    /// After an item: return whether another one follows. Otherwise, the list is closed.
    #[inline]
    pub fn more_items(&mut self) -> Read<bool> {
        self.more(b']')
    }

    /// Read a key and its colon.
    pub fn key(&mut self) -> Read<Cow<'a, [u8]>> {
        let key = self.text()?;
        if self.peek() != b':' {
            return Err(self.unexpected("a colon"));
        }
        self.at += 1;
        Ok(key)
    }

    /// Read a string, and decode its escapes.
    pub fn text(&mut self) -> Read<Cow<'a, [u8]>> {
        if self.peek() != b'"' {
            return Err(self.unexpected("a string"));
        }
        self.at += 1;
        let start = self.at;
        self.at += plain_length(self.rest());
        if self.byte() == b'"' {
            let found = &self.text[start..self.at];
            self.at += 1;
            return Ok(Cow::Borrowed(found));
        }
        let mut decoded = self.text[start..self.at].to_vec();
        loop {
            match self.byte() {
                b'"' => {
                    self.at += 1;
                    return Ok(Cow::Owned(decoded));
                }
                b'\\' => {
                    let mut utf8 = [0; 4];
                    decoded.extend_from_slice(self.escape()?.encode_utf8(&mut utf8).as_bytes());
                }
                _ => return Err(self.unexpected("a character of a string")),
            }
            let from = self.at;
            self.at += plain_length(self.rest());
            decoded.extend_from_slice(&self.text[from..self.at]);
        }
    }

    /// Read `null` if it is the value; return whether it was.
    #[inline]
    pub fn null(&mut self) -> Read<bool> {
        if self.peek() != b'n' {
            return Ok(false);
        }
        self.literal(b"null").map(|()| true)
    }

    pub fn boolean(&mut self) -> Read<bool> {
        match self.peek() {
            b't' => self.literal(b"true").map(|()| true),
            b'f' => self.literal(b"false").map(|()| false),
            _ => Err(self.unexpected("true or false")),
        }
    }

    /// Validate a value, and return the bytes it was sent as.
    pub fn raw(&mut self) -> Read<&'a [u8]> {
        self.peek();
        let start = self.mark();
        self.skip()?;
        Ok(self.since(start))
    }

    /// Validate a value and move over it.
    pub fn skip(&mut self) -> Read<()> {
        match self.peek() {
            b'"' => self.skip_text(),
            b'{' => {
                let mut more = self.open_object()?;
                while more {
                    self.key()?;
                    self.skip()?;
                    more = self.more_members()?;
                }
                Ok(())
            }
            b'[' => {
                let mut more = self.open_list()?;
                while more {
                    self.skip()?;
                    more = self.more_items()?;
                }
                Ok(())
            }
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(self.unexpected("a value")),
        }
    }

    #[cold]
    pub fn unexpected(&self, expected: &str) -> Fault {
        Fault::new(format!("byte {} is not {expected}", self.at))
    }

    #[inline]
    fn byte(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    #[inline]
    fn open(&mut self, opening: u8, closing: u8, what: &str) -> Read<bool> {
        if self.peek() != opening {
            return Err(self.unexpected(what));
        }
        self.at += 1;
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(Fault::new(
                "more than 64 lists and objects are open at once",
            ));
        }
        if self.peek() == closing {
            self.close();
            return Ok(false);
        }
        Ok(true)
    }

    #[inline]
    fn more(&mut self, closing: u8) -> Read<bool> {
        let found = self.peek();
        if found == b',' {
            self.at += 1;
            return Ok(true);
        }
        if found != closing {
            return Err(self.unexpected("a comma or a closing bracket"));
        }
        self.close();
        Ok(false)
    }

    #[inline]
    fn close(&mut self) {
        self.at += 1;
        self.depth -= 1;
    }

    fn literal(&mut self, name: &[u8]) -> Read<()> {
        if !self.rest().starts_with(name) {
            return Err(self.unexpected("a value"));
        }
        self.at += name.len();
        Ok(())
    }

    fn skip_text(&mut self) -> Read<()> {
        self.at += 1;
        loop {
            self.at += plain_length(self.rest());
            match self.byte() {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape().map(drop)?,
                _ => return Err(self.unexpected("a character of a string")),
            }
        }
    }

    fn escape(&mut self) -> Read<char> {
        self.at += 1;
        let kind = self.byte();
        self.at += 1;
        Ok(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(),
            _ => return Err(self.unexpected("an escape")),
        })
    }

    fn code_point(&mut self) -> Read<char> {
        let first = self.code_unit()?;
        let code = if (0xD800..0xDC00).contains(&first) && self.rest().starts_with(b"\\u") {
            self.at += 2;
            let second = self.code_unit()?;
            if !(0xDC00..0xE000).contains(&second) {
                return Err(self.unexpected("the second half of a surrogate pair"));
            }
            0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| self.unexpected("a surrogate pair"))
    }

    fn code_unit(&mut self) -> Read<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = char::from(self.byte()).to_digit(16);
            code = code * 16 + digit.ok_or_else(|| self.unexpected("a hex digit"))?;
            self.at += 1;
        }
        Ok(code)
    }

    fn number(&mut self) -> Read<()> {
        if self.byte() == b'-' {
            self.at += 1;
        }
        if self.byte() == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.byte(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Read<()> {
        let count = self
            .rest()
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        self.at += count;
        if count > 0 {
            Ok(())
        } else {
            Err(self.unexpected("a digit"))
        }
    }
}

/// Return the number of bytes before the next quote, backslash or control character.
///
/// Most texts are shorter than two words. Whole chunks are examined without a branch, which compiles
/// to vector instructions.
#[inline]
fn plain_length(text: &[u8]) -> usize {
    let (words, _) = text.as_chunks();
    for (nth, word) in words.iter().take(2).enumerate() {
        if let Some(place) = first_special(word) {
            return 8 * nth + place;
        }
    }
    let special = |byte: u8| (byte == b'"') | (byte == b'\\') | (byte < 0x20);
    let mut start = 8 * words.len().min(2);
    for chunk in text[start..].chunks_exact(32) {
        if chunk.iter().fold(false, |any, &byte| any | special(byte)) {
            break;
        }
        start += 32;
    }
    let (words, rest) = text[start..].as_chunks();
    for word in words {
        if let Some(place) = first_special(word) {
            return start + place;
        }
        start += 8;
    }
    let place = rest.iter().position(|&byte| special(byte));
    start + place.unwrap_or(rest.len())
}

/// Return the place of the first quote, backslash or control character of eight bytes.
///
/// Subtracting marks each byte that is less; a borrow can mark others, but only after such a byte.
#[inline]
fn first_special(word: &[u8; 8]) -> Option<usize> {
    const EACH: u64 = u64::MAX / 0xFF;
    let word = u64::from_le_bytes(*word);
    let less = |word: u64, than: u64| word.wrapping_sub(EACH * than) & !word;
    let equal = |byte: u8| less(word ^ (EACH * u64::from(byte)), 1);
    let marks = (less(word, 0x20) | equal(b'"') | equal(b'\\')) & (EACH * 0x80);
    (marks != 0).then(|| marks.trailing_zeros() as usize / 8)
}

/// Append a string in the one notation that Gapless writes.
pub fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
