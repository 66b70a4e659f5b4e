//! The clauses that say why a block is refused.

use std::fmt::Write;

use crate::model::U256;
use crate::verdict::{Check, Refusal};

pub fn refuse<T>(check: Check, finding: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::BadBlock(check, finding.into()))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Write a number with a comma before each group of three digits.
pub fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Write a number as `grouped` does, or in hex if it is larger than any real price.
pub fn grouped_big(number: &U256) -> String {
    match number.split_first_chunk::<16>() {
        Some(([0, ..], low)) if number[..16] == [0; 16] => grouped(
            low.iter()
                .fold(0, |value, byte| value << 8 | u128::from(*byte)),
        ),
        _ => hex(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::big;

    #[test]
    fn groups_digits() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped_big(&big(30_000)), "30,000");
        assert_eq!(grouped_big(&[1; 32]), hex(&[1; 32]));
    }
}
