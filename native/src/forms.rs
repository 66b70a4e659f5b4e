//! The forms that a text in an answer can have, and the values they stand for.
//!
//! A form is read at the beginning of a text, and the caller checks that the text ends there. So a
//! value is decoded in the answer itself, in one pass, without looking for its end first. Nothing
//! that was read can be part of an escape, because forms consist of digits and `0x` only.

use crate::model::U256;

/// How a value of a fixed size is written.
pub trait Form {
    type Value;
    const EMPTY: Self::Value;

    /// Read a value at the beginning of a text; return its length, or `None` if there is none.
    ///
    /// If the text does not end there, the caller discards the value.
    fn read(text: &[u8], into: &mut Self::Value) -> Option<usize>;
}

/// Exactly N bytes.
pub struct Bytes<const N: usize>;
/// A quantity below 2^64.
pub struct U64;
/// A quantity below 2^256.
pub struct Word;
/// A quantity below 2^8: the type of an envelope.
pub struct Kind;
/// As `U64`, or a decimal number: Optimism's nodes wrote some in their first year.
pub struct L1U64;
/// As `Word`, or a decimal number.
pub struct L1Word;

const MOST_DECIMAL_DIGITS: usize = 78;
const MOST_TEXT: usize = 100;
const NOT_HEX: u8 = 0xFF;
const DIGITS: [u8; 256] = digits();

impl<const N: usize> Form for Bytes<N> {
    type Value = [u8; N];
    const EMPTY: [u8; N] = [0; N];

    #[inline]
    fn read(text: &[u8], into: &mut [u8; N]) -> Option<usize> {
        let digits = text.get(2..2 + 2 * N)?;
        (text.starts_with(b"0x") && decode_hex(digits, into)).then_some(2 + 2 * N)
    }
}

impl Form for U64 {
    type Value = u64;
    const EMPTY: u64 = 0;

    #[inline]
    fn read(text: &[u8], into: &mut u64) -> Option<usize> {
        let digits = text.strip_prefix(b"0x")?;
        let mut count = 0;
        let mut number = 0;
        while let Some(digit) = digits.get(count).map(|&byte| DIGITS[usize::from(byte)]) {
            if digit == NOT_HEX || count == 16 {
                break;
            }
            number = number << 4 | u64::from(digit);
            count += 1;
        }
        *into = number;
        (count > 0).then_some(2 + count)
    }
}

impl Form for Word {
    type Value = U256;
    const EMPTY: U256 = [0; 32];

    #[inline]
    fn read(text: &[u8], into: &mut U256) -> Option<usize> {
        if let Some(length) = Bytes::<32>::read(text, into) {
            return Some(length);
        }
        let digits = text.strip_prefix(b"0x")?;
        let is_digit = |&&byte: &&u8| DIGITS[usize::from(byte)] != NOT_HEX;
        let count = digits.iter().take(64).take_while(is_digit).count();
        *into = [0; 32];
        for (at, &byte) in digits[..count].iter().rev().enumerate() {
            into[31 - at / 2] |= DIGITS[usize::from(byte)] << (at % 2 * 4);
        }
        (count > 0).then_some(2 + count)
    }
}

impl Form for Kind {
    type Value = u8;
    const EMPTY: u8 = 0;

    fn read(text: &[u8], into: &mut u8) -> Option<usize> {
        let mut number = 0;
        let length = U64::read(text, &mut number)?;
        *into = u8::try_from(number).ok()?;
        Some(length)
    }
}

impl Form for L1Word {
    type Value = U256;
    const EMPTY: U256 = [0; 32];

    fn read(text: &[u8], into: &mut U256) -> Option<usize> {
        if text.starts_with(b"0x") {
            Word::read(text, into)
        } else {
            decimal(text, into)
        }
    }
}

impl Form for L1U64 {
    type Value = u64;
    const EMPTY: u64 = 0;

    fn read(text: &[u8], into: &mut u64) -> Option<usize> {
        if text.starts_with(b"0x") {
            return U64::read(text, into);
        }
        let mut word = [0; 32];
        let length = decimal(text, &mut word)?;
        let (high, low) = word.split_last_chunk::<8>()?;
        *into = u64::from_be_bytes(*low);
        high.iter().all(|&byte| byte == 0).then_some(length)
    }
}

/// Append the bytes of a whole text of the form `data`; return whether it has that form.
#[inline]
pub fn append_data(text: &[u8], arena: &mut Vec<u8>) -> bool {
    let Some(digits) = text.strip_prefix(b"0x") else {
        return false;
    };
    if digits.is_empty() {
        return true;
    }
    let start = arena.len();
    arena.resize(start + digits.len() / 2, 0);
    digits.len() % 2 == 0 && decode_hex(digits, &mut arena[start..])
}

/// Whether a text is short and can be stored in JSON as it is.
pub fn is_text(text: &[u8]) -> bool {
    let is_plain = |&byte: &u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    text.len() <= MOST_TEXT && text.iter().all(is_plain)
}

/// Append bytes as hex digits in lower case, after `0x`.
pub fn write_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"0x");
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    let written = faster_hex::hex_encode(bytes, &mut out[start..]);
    debug_assert!(written.is_ok());
}

/// Append a quantity in its shortest form.
pub fn write_quantity(out: &mut Vec<u8>, number: &U256) {
    let mut digits = [0; 64];
    let written = faster_hex::hex_encode(number, &mut digits);
    debug_assert!(written.is_ok());
    let zeros = digits
        .iter()
        .take(63)
        .take_while(|&&digit| digit == b'0')
        .count();
    out.extend_from_slice(b"0x");
    out.extend_from_slice(&digits[zeros..]);
}

#[inline]
fn decode_hex(digits: &[u8], into: &mut [u8]) -> bool {
    faster_hex::hex_decode(digits, into).is_ok()
}

/// Read a decimal number below 2^256.
fn decimal(text: &[u8], into: &mut U256) -> Option<usize> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 || count > MOST_DECIMAL_DIGITS {
        return None;
    }
    *into = [0; 32];
    for &digit in &text[..count] {
        let mut carry = u16::from(digit - b'0');
        for byte in into.iter_mut().rev() {
            carry += u16::from(*byte) * 10;
            *byte = (carry & 0xFF) as u8;
            carry >>= 8;
        }
        if carry > 0 {
            return None;
        }
    }
    Some(count)
}

const fn digits() -> [u8; 256] {
    let mut table = [NOT_HEX; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            digit @ b'A'..=b'F' => digit - b'A' + 10,
            _ => NOT_HEX,
        };
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole<F: Form>(text: &str) -> Option<F::Value> {
        let mut value = F::EMPTY;
        (F::read(text.as_bytes(), &mut value)? == text.len()).then_some(value)
    }

    fn word(low: u128) -> U256 {
        let mut word = [0; 32];
        word[16..].copy_from_slice(&low.to_be_bytes());
        word
    }

    #[test]
    fn reads_quantities() {
        assert_eq!(whole::<U64>("0x0"), Some(0));
        assert_eq!(whole::<U64>("0x00fF"), Some(255));
        assert_eq!(whole::<U64>("0xffffffffffffffff"), Some(u64::MAX));
        assert_eq!(whole::<Word>("0x0Ab"), Some(word(0xab)));
        assert_eq!(
            whole::<Word>("0x123456789abcdef01"),
            Some(word(0x123456789abcdef01))
        );
        assert_eq!(
            whole::<Word>(&format!("0x{}", "f".repeat(64))),
            Some([0xff; 32])
        );
        assert_eq!(whole::<Kind>("0x00000000000000fF"), Some(255));
    }

    #[test]
    fn refuses_other_quantities() {
        for text in [
            "", "0", "0x", "0X1", "1", " 0x1", "0x1 ", "0x+1", "-0x1", "0x_1", "0x1g", "x1",
        ] {
            assert_eq!(whole::<U64>(text), None, "{text:?}");
            assert_eq!(whole::<Word>(text), None, "{text:?}");
            assert_eq!(whole::<Kind>(text), None, "{text:?}");
        }
        assert_eq!(whole::<U64>("0x00000000000000001"), None);
        assert_eq!(whole::<Word>(&format!("0x{}", "0".repeat(65))), None);
        assert_eq!(whole::<Kind>("0x100"), None);
    }

    #[test]
    fn reads_bytes_of_one_width() {
        assert_eq!(whole::<Bytes<2>>("0xaBcD"), Some([0xab, 0xcd]));
        for text in [
            "0xabc",
            "0xabcde",
            "0xabcg",
            "abcd",
            "0Xabcd",
            "0xab0x",
            "0xab\u{e9}",
        ] {
            assert_eq!(whole::<Bytes<2>>(text), None, "{text}");
        }
        let hash = format!("0x{}", "0f".repeat(32));
        assert_eq!(whole::<Bytes<32>>(&hash), Some([0x0f; 32]));
        for at in 2..66 {
            let broken: String = format!("{}g{}", &hash[..at], &hash[at + 1..]);
            assert_eq!(whole::<Bytes<32>>(&broken), None, "{at}");
        }
    }

    #[test]
    fn reads_decimal_numbers_of_optimism() {
        assert_eq!(whole::<L1U64>("18446744073709551615"), Some(u64::MAX));
        assert_eq!(whole::<L1U64>("18446744073709551616"), None);
        assert_eq!(whole::<L1U64>("0x10"), Some(16));
        assert_eq!(whole::<L1U64>("0010"), Some(10));
        assert_eq!(
            whole::<L1Word>("340282366920938463463374607431768211455"),
            Some(word(u128::MAX))
        );
        let most = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
        assert_eq!(whole::<L1Word>(most), Some([0xff; 32]));
        assert_eq!(whole::<L1Word>(&most.replace("935", "936")), None);
        assert_eq!(whole::<L1Word>(&"0".repeat(79)), None);
        assert_eq!(whole::<L1Word>("1e5"), None);
        assert_eq!(whole::<L1Word>(""), None);
    }

    #[test]
    fn appends_data() {
        let mut arena = vec![7];
        assert!(append_data(b"0x", &mut arena));
        assert!(append_data(b"0x0aFF", &mut arena));
        assert_eq!(arena, [7, 0x0a, 0xff]);
        for text in ["", "0", "0x1", "0xg0", "0X00", "00", "0x 0"] {
            assert!(!append_data(text.as_bytes(), &mut arena), "{text}");
        }
    }

    #[test]
    fn recognises_short_texts() {
        assert!(is_text(b"") && is_text(b"1 ~0.684") && is_text(&[b'a'; 100]));
        assert!(!is_text(&[b'a'; 101]) && !is_text(b"\"") && !is_text(b"\\") && !is_text(b"\x7f"));
        assert!(!is_text("é".as_bytes()) && !is_text(b"\n"));
    }

    #[test]
    fn writes_hex() {
        let mut out = Vec::new();
        write_hex(&mut out, &[0x0a, 0xff]);
        assert_eq!(out, b"0x0aff");
        for number in [0, 1, 0xf, 0x10, 0x100, 0x0abc, 0x1_0000_0000_0000_0000_u128] {
            let mut out = Vec::new();
            write_quantity(&mut out, &word(number));
            assert_eq!(out, format!("{number:#x}").as_bytes());
        }
    }
}
