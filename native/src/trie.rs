//! The root of a list: the Merkle-Patricia trie whose keys are the RLP of 0, 1, 2, …
//!
//! A header commits to the block's transactions, receipts and withdrawals by such roots. The path of
//! each leaf depends only on the neighbours of its key, so all leaves are hashed first, side by
//! side, and then the branches above them. No key is a prefix of another, because RLP is
//! prefix-free. So a branch never has a value itself.

use std::convert::Infallible;
use std::ops::Range;

use crate::keccak::{keccak, keccak_each};
use crate::model::Hash;
use crate::rlp;

/// The root of an empty list: the hash of an empty string.
pub const EMPTY_ROOT: Hash = [
    0x56, 0xe8, 0x1f, 0x17, 0x1b, 0xcc, 0x55, 0xa6, 0xff, 0x83, 0x45, 0xe6, 0x92, 0xc0, 0xf8, 0x6e,
    0x5b, 0x48, 0xe0, 0x1b, 0x99, 0x6c, 0xad, 0xc0, 0x01, 0x62, 0x2f, 0xb5, 0xe3, 0x63, 0xb4, 0x21,
];

/// Encoded items in one buffer, each with room for the prefixes of its leaf.
#[derive(Default)]
pub struct Items {
    buffer: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Items {
    /// Reserve room for items of about so many bytes together.
    pub fn with_capacity(bytes: usize, count: usize) -> Self {
        let buffer = Vec::with_capacity(bytes);
        Self {
            buffer,
            places: Vec::with_capacity(count),
        }
    }

    /// Append an item: the list that `write` appends, prefixed with its type if that is not 0.
    pub fn push<E>(
        &mut self,
        kind: u8,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.places
            .push(rlp::envelope(&mut self.buffer, kind, write)?);
        Ok(())
    }

    /// Append an item without a type, which can always be encoded.
    pub fn push_plain(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let Ok(()) = self.push::<Infallible>(0, |out| {
            write(out);
            Ok(())
        });
    }

    /// Return the root of the items.
    pub fn root(&mut self) -> Hash {
        let leaves = self.write_leaves();
        self.root_of(&leaves, &keccak_each(&self.slices(&leaves)))
    }

    /// Return the root of the items, and the hash of each item.
    pub fn root_and_hashes(&mut self) -> (Hash, Vec<Hash>) {
        let leaves = self.write_leaves();
        let mut messages = self.slices(&leaves);
        messages.extend(self.slices(&self.places));
        let mut hashes = keccak_each(&messages);
        let of_items = hashes.split_off(leaves.len());
        (self.root_of(&leaves, &hashes), of_items)
    }

    fn slices(&self, places: &[Range<usize>]) -> Vec<&[u8]> {
        places.iter().map(|it| &self.buffer[it.clone()]).collect()
    }

    /// Make each item a leaf; return where the leaves are.
    fn write_leaves(&mut self) -> Vec<Range<usize>> {
        let count = self.places.len();
        let mut leaves = vec![0..0; count];
        for rank in 0..count {
            let key = Key::ranked(rank, count);
            let before = rank
                .checked_sub(1)
                .map_or(0, |it| key.shared(Key::ranked(it, count)));
            let after = if rank + 1 < count {
                key.shared(Key::ranked(rank + 1, count))
            } else {
                0
            };
            // A leaf is below the branch where its key differs from its closest neighbour's.
            let depth = if count == 1 { 0 } else { before.max(after) + 1 };
            let path = Path::new(key, depth..key.len, true);
            let item = index_of(rank, count);
            leaves[item] = rlp::leaf(&mut self.buffer, &self.places[item], path.as_slice());
        }
        leaves
    }

    fn root_of(&self, leaves: &[Range<usize>], hashes: &[Hash]) -> Hash {
        match leaves.len() {
            0 => EMPTY_ROOT,
            1 => hashes[0],
            count => {
                let trie = Trie {
                    buffer: &self.buffer,
                    leaves,
                    hashes,
                };
                keccak(trie.node(0..count, 0).as_slice())
            }
        }
    }
}

/// The index of an item by the order of keys: the key of 0 is 0x80, after those of 1 to 127.
fn index_of(rank: usize, count: usize) -> usize {
    let zero = count.min(0x80) - 1;
    match rank {
        _ if rank < zero => rank + 1,
        _ if rank == zero => 0,
        _ => rank,
    }
}

/// The nibbles of a key, from the highest ones on.
#[derive(Clone, Copy)]
struct Key {
    nibbles: u64,
    len: usize,
}

impl Key {
    fn ranked(rank: usize, count: usize) -> Self {
        let index = index_of(rank, count) as u64;
        if index == 0 {
            return Self {
                nibbles: u64::from(rlp::EMPTY_STRING) << 56,
                len: 2,
            };
        }
        if index < 0x80 {
            return Self {
                nibbles: index << 56,
                len: 2,
            };
        }
        // Buffers end long before an index has more than seven bytes.
        let width = (64 - index.leading_zeros()).div_ceil(8);
        let head = u64::from(rlp::EMPTY_STRING) + u64::from(width);
        let nibbles = head << 56 | index << (56 - 8 * width);
        Self {
            nibbles,
            len: 2 + 2 * width as usize,
        }
    }

    fn nibble(self, at: usize) -> usize {
        (self.nibbles >> (60 - 4 * at) & 0xf) as usize
    }

    /// The number of leading nibbles that two different keys share.
    fn shared(self, other: Self) -> usize {
        ((self.nibbles ^ other.nibbles).leading_zeros() / 4) as usize
    }
}

/// A path as it is encoded in a node: hex-prefix form, as an RLP string.
struct Path {
    bytes: [u8; 10],
    len: usize,
}

impl Path {
    fn new(key: Key, nibbles: Range<usize>, is_leaf: bool) -> Self {
        let odd = nibbles.len() % 2;
        let size = 1 + nibbles.len() / 2;
        let mut bytes = [0; 10];
        // A single byte is its own encoding, because its highest bit is not set.
        let start = usize::from(size > 1);
        bytes[0] = rlp::EMPTY_STRING + size as u8;
        bytes[start] = (u8::from(is_leaf) << 1 | odd as u8) << 4;
        for (position, at) in nibbles.enumerate() {
            let place = position + 2 - odd;
            bytes[start + place / 2] |= (key.nibble(at) as u8) << (4 * (1 - place % 2));
        }
        Self {
            bytes,
            len: start + size,
        }
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

struct Trie<'a> {
    buffer: &'a [u8],
    leaves: &'a [Range<usize>],
    hashes: &'a [Hash],
}

impl Trie<'_> {
    /// Encode the branch above the keys of these ranks, which share `depth` nibbles, or the extension
    /// above that branch.
    fn node(&self, ranks: Range<usize>, depth: usize) -> Node {
        let key = |rank| Key::ranked(rank, self.leaves.len());
        let first = key(ranks.start);
        let fork = first.shared(key(ranks.end - 1));
        let mut branch = Node::default();
        let mut start = ranks.start;
        for nibble in 0..16 {
            let end = (start..ranks.end).find(|&it| key(it).nibble(fork) != nibble);
            let end = end.unwrap_or(ranks.end);
            match end - start {
                0 => branch.push(&[rlp::EMPTY_STRING]),
                1 => self.refer_to_leaf(index_of(start, self.leaves.len()), &mut branch),
                _ => branch.refer_to(&self.node(start..end, fork + 1)),
            }
            start = end;
        }
        branch.push(&[rlp::EMPTY_STRING]);
        branch.close();
        if fork == depth {
            return branch;
        }
        let mut extension = Node::default();
        extension.push(Path::new(first, depth..fork, false).as_slice());
        extension.refer_to(&branch);
        extension.close();
        extension
    }

    fn refer_to_leaf(&self, item: usize, branch: &mut Node) {
        let leaf = &self.buffer[self.leaves[item].clone()];
        branch.refer(leaf, || self.hashes[item]);
    }
}

/// A branch or an extension.
struct Node {
    bytes: [u8; Self::HEAD + 16 * rlp::WORD_SIZE + 1],
    start: usize,
    end: usize,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            bytes: [0; _],
            start: Self::HEAD,
            end: Self::HEAD,
        }
    }
}

impl Node {
    const HEAD: usize = 3;

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    fn refer_to(&mut self, node: &Self) {
        self.refer(node.as_slice(), || keccak(node.as_slice()));
    }

    /// A node refers to another one by its hash, or contains it if that is shorter.
    fn refer(&mut self, node: &[u8], hash: impl FnOnce() -> Hash) {
        if node.len() < 32 {
            self.push(node);
        } else {
            self.push(&[rlp::EMPTY_STRING + 32]);
            self.push(&hash());
        }
    }

    fn close(&mut self) {
        self.start = rlp::list_head_before(&mut self.bytes, self.start..self.end);
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(count: usize, size: usize) -> Items {
        let mut items = Items::default();
        for index in 0..count {
            let content = vec![(index % 251) as u8; size * (index % 3 + 1)];
            items.push_plain(|out| rlp::string(out, &content));
        }
        items
    }

    fn hex(hash: Hash) -> String {
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn knows_the_root_of_an_empty_list() {
        assert_eq!(keccak(&[rlp::EMPTY_STRING]), EMPTY_ROOT);
        assert_eq!(items(0, 0).root(), EMPTY_ROOT);
    }

    #[test]
    fn computes_the_roots_that_the_reference_computes() {
        let two = "fbf7fb2aefa4488612cf374a82ed27185435090877b088944c6a716527d61611";
        assert_eq!(hex(items(2, 3).root()), two);
        let many = "9b1b8406ea7a79abdecf99eeb163178782652c93d5f8081c001889a80702e9d1";
        assert_eq!(hex(items(129, 3).root()), many);
        let counts = [0, 1, 2, 3, 16, 17, 127, 128, 129, 130, 256, 257, 300, 700];
        let sizes = [0, 1, 3, 70];
        let pairs = counts
            .into_iter()
            .flat_map(|count| sizes.map(|size| (count, size)));
        let roots: Vec<u8> = pairs
            .flat_map(|(count, size)| items(count, size).root())
            .collect();
        let all = "76f199e3159687bdd80f75a69d1e10bb1f8888e424352a6f8a3303f7019cf834";
        assert_eq!(hex(keccak(&roots)), all);
    }

    #[test]
    fn hashes_the_items_too() {
        let mut items = items(40, 9);
        let expected: Vec<Hash> = items
            .slices(&items.places)
            .into_iter()
            .map(keccak)
            .collect();
        let root = items.root();
        assert_eq!(items.root_and_hashes(), (root, expected));
    }
}
