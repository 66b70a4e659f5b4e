//! Rows in PostgreSQL's binary COPY format.
//!
//! `gapless.sinks.postgres.copying` describes the format, and is the reference. It gives all numbers
//! of a column the same count of digits, and PostgreSQL drops the leading zeros; here are none.

use crate::row_values::{Column, Rows};

const NULL: i32 = -1;
const BASE: u64 = 10_000;
/// Enough digits for 256 bits.
const MOST_DIGITS: usize = 20;

/// The rows, without the header and the end of a stream; `numeric` says which columns are numbers
/// of 256 bits.
pub fn encode(rows: &Rows, numeric: &[bool]) -> Vec<u8> {
    let columns: Vec<_> = rows.columns().zip(numeric).collect();
    let count = columns.len() as u16;
    let mut out = Vec::new();
    for row in 0..rows.len {
        out.extend_from_slice(&count.to_be_bytes());
        for (column, numeric) in &columns {
            push(column, **numeric, row, &mut out);
        }
    }
    out
}

fn push(column: &Column, numeric: bool, row: usize, out: &mut Vec<u8>) {
    match column {
        _ if column.is_null(row) => out.extend_from_slice(&NULL.to_be_bytes()),
        Column::Int(array) => push_field(&array.value(row).to_be_bytes(), out),
        Column::Float(array) => push_field(&array.value(row).to_be_bytes(), out),
        Column::Bool(array) => push_field(&[u8::from(array.value(row))], out),
        Column::Fixed(array) if numeric => push_numeric(array.value(row), out),
        Column::Fixed(array) => push_field(array.value(row), out),
        Column::Bytes(array) => push_field(array.value(row), out),
        Column::Text(array) => push_field(array.value(row).as_bytes(), out),
    }
}

fn push_field(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

/// A big-endian number of 256 bits, as digits in base 10,000.
fn push_numeric(number: &[u8], out: &mut Vec<u8>) {
    let mut digits = [0; MOST_DIGITS];
    let first = write_digits(number, &mut digits);
    let digits = &digits[first..];
    let count = digits.len() as u16;
    out.extend_from_slice(&(8 + 2 * u32::from(count)).to_be_bytes());
    for value in [count, count - 1, 0, 0] {
        out.extend_from_slice(&value.to_be_bytes()); // digits, weight of the first, sign, scale
    }
    for digit in digits {
        out.extend_from_slice(&digit.to_be_bytes());
    }
}

/// Write the digits to the end, and return where the first is; zero is one digit.
fn write_digits(number: &[u8], digits: &mut [u16; MOST_DIGITS]) -> usize {
    let mut limbs = [0; 8];
    for (limb, bytes) in limbs.iter_mut().zip(number.as_chunks().0) {
        *limb = u64::from(u32::from_be_bytes(*bytes));
    }
    let mut used = &mut limbs[..];
    let mut first = MOST_DIGITS;
    loop {
        let zeros = used.iter().take_while(|limb| **limb == 0).count();
        used = &mut used[zeros..];
        if used.is_empty() {
            break;
        }
        // Two digits per step: the remainder and a limb fit in 64 bits.
        let mut rest = 0;
        for limb in used.iter_mut() {
            let dividend = rest << 32 | *limb;
            *limb = dividend / (BASE * BASE);
            rest = dividend % (BASE * BASE);
        }
        digits[first - 1] = (rest % BASE) as u16;
        digits[first - 2] = (rest / BASE) as u16;
        first -= 2;
    }
    match digits.get(first) {
        Some(0) => first + 1,
        _ => first.min(MOST_DIGITS - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(number: [u8; 32]) -> Vec<u16> {
        let mut found = [0; MOST_DIGITS];
        let first = write_digits(&number, &mut found);
        found[first..].to_vec()
    }

    fn word(number: u128) -> [u8; 32] {
        let mut word = [0; 32];
        word[16..].copy_from_slice(&number.to_be_bytes());
        word
    }

    #[test]
    fn numbers_have_no_more_digits_than_they_need() {
        assert_eq!(digits(word(0)), [0]);
        assert_eq!(digits(word(9_999)), [9_999]);
        assert_eq!(digits(word(10_000)), [1, 0]);
        assert_eq!(digits(word(100_000_000)), [1, 0, 0]);
        assert_eq!(digits(word(1 << 64)), [1844, 6744, 737, 955, 1616]);
        let largest = digits([255; 32]);
        assert_eq!(largest.len(), MOST_DIGITS);
        assert_eq!((largest[0], largest[1], largest[19]), (11, 5792, 9935));
    }
}
