//! The 2,048-bit bloom filter of the addresses and topics in a block's logs.
//!
//! Each item sets three bits, taken from its hash. A bloom proves little, because dropping a block's
//! last log often leaves it unchanged. But a log whose bits are not set is certainly wrong.
//!
//! A few tokens and their `Transfer` topic account for most of a block's logs, so the bits of items
//! are remembered in a table of fixed size; an item that meets another one in its slot replaces it.

use std::cell::RefCell;

use crate::keccak::keccak;
use crate::model::{Bloom, Log};

pub const EMPTY: Bloom = [0; 256];

const SLOTS: usize = 1 << 12;

/// An address or a topic, and the positions of its bits.
#[derive(Clone, Copy)]
struct Slot {
    item: [u8; 32],
    len: u8,
    bits: [u16; 3],
}

thread_local! {
    static SLOTS_OF_THREAD: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

/// Return the bloom of some logs.
pub fn of_logs<'a>(logs: impl IntoIterator<Item = &'a Log>) -> Bloom {
    let mut bloom = EMPTY;
    SLOTS_OF_THREAD.with_borrow_mut(|slots| {
        slots.resize(
            SLOTS,
            Slot {
                item: [0; 32],
                len: 0,
                bits: [0; 3],
            },
        );
        for log in logs {
            add(&mut bloom, slots, &log.address);
            for topic in log.topics() {
                add(&mut bloom, slots, topic);
            }
        }
    });
    bloom
}

/// Set the bits of one bloom in another one.
pub fn unite(bloom: &mut Bloom, other: &Bloom) {
    for (byte, more) in bloom.iter_mut().zip(other) {
        *byte |= more;
    }
}

fn add(bloom: &mut Bloom, slots: &mut [Slot], item: &[u8]) {
    let slot = &mut slots[place(item)];
    let len = item.len();
    if usize::from(slot.len) != len || slot.item[..len] != *item {
        slot.item[..len].copy_from_slice(item);
        slot.len = len as u8;
        slot.bits = bits_of(item);
    }
    for bit in slot.bits {
        bloom[255 - usize::from(bit / 8)] |= 1 << (bit % 8);
    }
}

/// The slot of an item: addresses in topics and small numbers differ only in their last bytes.
fn place(item: &[u8]) -> usize {
    let last = item
        .last_chunk::<8>()
        .map_or(0, |it| u64::from_le_bytes(*it));
    (last.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % SLOTS
}

fn bits_of(item: &[u8]) -> [u16; 3] {
    let hash = keccak(item);
    [0, 2, 4].map(|at| u16::from_be_bytes([hash[at], hash[at + 1]]) & 2047)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(last: u8, topics: u8) -> Log {
        Log {
            address: [last; 20],
            topics: [[last; 32]; 4],
            topic_count: topics,
            ..Log::default()
        }
    }

    fn plain(items: &[&[u8]]) -> Bloom {
        let mut bloom = EMPTY;
        for bit in items.iter().flat_map(|it| bits_of(it)) {
            bloom[255 - usize::from(bit / 8)] |= 1 << (bit % 8);
        }
        bloom
    }

    #[test]
    fn sets_three_bits_of_an_item() {
        // The bloom of the address 0x00…00, as Ethereum's yellow paper defines it.
        let bits = bits_of(&[0; 20]);
        assert_eq!(bits, [0x5380 & 2047, 0xc7b7 & 2047, 0xae81 & 2047]);
        assert_eq!(of_logs(&[log(0, 0)]), plain(&[&[0; 20]]));
    }

    #[test]
    fn remembers_items_without_confusing_them() {
        // An address and a topic of equal last bytes share a slot.
        for _ in 0..2 {
            for last in 0..=255 {
                assert_eq!(of_logs(&[log(last, 1)]), plain(&[&[last; 20], &[last; 32]]));
            }
        }
    }

    #[test]
    fn unites_blooms() {
        let (first, second) = (log(1, 2), log(2, 0));
        let mut united = of_logs([&first]);
        unite(&mut united, &of_logs([&second]));
        assert_eq!(united, of_logs([&first, &second]));
    }
}
