//! Keys of a block without a column, which the headers of some networks cover.
//!
//! Such a value is kept as JSON, because it can be anything. It is read only here, for the hash of the
//! header: a value that is not a string of its form cannot be in a header.

use crate::encoding::Unencodable;
use crate::model::{Answer, Hash, U256};

/// A value as the node sent it.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    key: &'a str,
    json: &'a [u8],
}

/// Return the value of a key; null is a value too.
pub fn get<'a>(answer: &'a Answer, key: &'a str) -> Option<Given<'a>> {
    let mut keys = answer.block.extra.iter().rev();
    let found = keys.find(|it| answer.bytes(it.key) == key.as_bytes())?;
    Some(Given {
        key,
        json: answer.bytes(found.value),
    })
}

impl Given<'_> {
    /// Return the number; null is absent.
    pub fn optional_number(self) -> Result<Option<U256>, Unencodable> {
        if self.json == b"null" {
            Ok(None)
        } else {
            self.number().map(Some)
        }
    }

    pub fn number(self) -> Result<U256, Unencodable> {
        let digits = self.digits()?;
        if digits.is_empty() || digits.len() > 64 {
            return self.invalid();
        }
        let mut value = U256::default();
        for (at, digit) in digits.iter().rev().enumerate() {
            value[31 - at / 2] |= digit << (4 * (at % 2));
        }
        Ok(value)
    }

    pub fn word(self) -> Result<Hash, Unencodable> {
        self.data()?.try_into().or_else(|_| self.invalid())
    }

    pub fn data(self) -> Result<Vec<u8>, Unencodable> {
        let digits = self.digits()?;
        match digits.as_chunks::<2>() {
            (pairs, []) => Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect()),
            _ => self.invalid(),
        }
    }

    /// Return the values of the hex digits after `0x`.
    fn digits(self) -> Result<Vec<u8>, Unencodable> {
        let text = unescaped(self.json);
        let digits = text.as_deref().and_then(|it| it.strip_prefix(b"0x"));
        let values = digits.and_then(|it| it.iter().map(|&digit| digit_value(digit)).collect());
        values.map_or_else(|| self.invalid(), Ok)
    }

    fn invalid<T>(self) -> Result<T, Unencodable> {
        let finding = format!(
            "`{}` in its header does not have the form of that key",
            self.key
        );
        Err(Unencodable::Invalid(finding.into()))
    }
}

/// Return the text of a JSON string, if it is one and all of its escapes stand for ASCII.
fn unescaped(json: &[u8]) -> Option<Vec<u8>> {
    let mut rest = json.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut text = Vec::with_capacity(rest.len());
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            text.push(first);
            continue;
        }
        // The other escapes stand for characters that no form contains.
        let (code, after) = rest.strip_prefix(b"u00")?.split_first_chunk::<2>()?;
        text.push(digit_value(code[0])? << 4 | digit_value(code[1])?);
        rest = after;
    }
    Some(text)
}

fn digit_value(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|it| it as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ExtraKey, Slice};

    fn given(json: &str) -> Given<'_> {
        Given {
            key: "step",
            json: json.as_bytes(),
        }
    }

    #[test]
    fn reads_quantities() {
        assert_eq!(given("\"0x0102\"").number().unwrap()[29..], [0, 1, 2]);
        assert_eq!(given(r#""\u0030x1F""#).number().unwrap()[31], 0x1f);
        for json in [
            "\"0x\"",
            "\"1f\"",
            "31",
            "null",
            "\"0X1\"",
            "\"0xg\"",
            r#""0x1\n""#,
        ] {
            assert!(given(json).number().is_err(), "{json}");
        }
        assert!(
            given(&format!("\"0x{}\"", "0".repeat(65)))
                .number()
                .is_err()
        );
        assert_eq!(given("null").optional_number(), Ok(None));
    }

    #[test]
    fn reads_bytes() {
        assert!(given("\"0x\"").data().unwrap().is_empty());
        assert_eq!(given("\"0x01fF\"").data().unwrap(), [1, 255]);
        assert!(given("\"0x012\"").data().is_err());
        assert!(given("\"0x01\"").word().is_err());
        assert_eq!(
            given(&format!("\"0x{}\"", "ab".repeat(32))).word().unwrap(),
            [0xab; 32]
        );
    }

    #[test]
    fn finds_a_key_by_its_name() {
        let mut answer = Answer {
            arena: b"step\"0x1\"".to_vec(),
            ..Answer::default()
        };
        let (key, value) = (Slice { start: 0, len: 4 }, Slice { start: 4, len: 5 });
        answer.block.extra.push(ExtraKey { key, value });
        assert_eq!(get(&answer, "step").unwrap().number().unwrap()[31], 1);
        assert!(get(&answer, "auraStep").is_none());
    }
}
