//! Hash many messages at once, each in its own lane of the vectors.
//!
//! A lane that has finished a message begins the next one, so lengths may differ. Long messages are
//! begun first, so that no long one is left alone at the end.

use super::permutation::Lanes;
#[cfg(target_arch = "x86_64")]
use super::permutation::{permute_eight, permute_four};
use super::{RATE, RATE_WORDS, hash_of, keccak, padded, words};
use crate::model::Hash;

/// Below this number of messages, one by one is as fast.
#[cfg(target_arch = "x86_64")]
const FEW: usize = 2;

pub fn hash(messages: &[&[u8]]) -> Vec<Hash> {
    #[cfg(target_arch = "x86_64")]
    if messages.len() > FEW {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the instructions were detected.
            return in_lanes::<8>(messages, |states| unsafe { permute_eight(states) });
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the instructions were detected.
            return in_lanes::<4>(messages, |states| unsafe { permute_four(states) });
        }
    }
    messages.iter().map(|it| keccak(it)).collect()
}

/// What a lane is hashing.
struct Work<'a> {
    message: usize,
    rest: &'a [u8],
    is_last: bool,
}

fn in_lanes<const N: usize>(messages: &[&[u8]], permute: impl Fn(&mut Lanes<N>)) -> Vec<Hash> {
    let mut hashes = vec![[0; 32]; messages.len()];
    let mut waiting: Vec<usize> = (0..messages.len()).collect();
    waiting.sort_unstable_by_key(|&it| messages[it].len());
    let mut next = || {
        let message = waiting.pop()?;
        Some(Work {
            message,
            rest: messages[message],
            is_last: false,
        })
    };
    let mut states = Lanes([[0; N]; _]);
    let mut works: [Option<Work>; N] = std::array::from_fn(|_| next());
    while works.iter().any(Option::is_some) {
        for (lane, work) in works.iter_mut().enumerate() {
            if let Some(work) = work {
                absorb(&mut states, lane, work);
            }
        }
        permute(&mut states);
        for (lane, work) in works.iter_mut().enumerate() {
            if let Some(done) = work.take_if(|it| it.is_last) {
                hashes[done.message] = hash_of(|word| states.0[word][lane]);
                states.0.iter_mut().for_each(|word| word[lane] = 0);
                *work = next();
            }
        }
    }
    hashes
}

fn absorb<const N: usize>(states: &mut Lanes<N>, lane: usize, work: &mut Work) {
    if let Some((block, rest)) = work.rest.split_first_chunk::<RATE>() {
        work.rest = rest;
        add(states, lane, block);
    } else {
        work.is_last = true;
        add(states, lane, &padded(work.rest));
    }
}

fn add<const N: usize>(states: &mut Lanes<N>, lane: usize, block: &[u8; RATE]) {
    for (word, value) in states.0[..RATE_WORDS].iter_mut().zip(words(block)) {
        word[lane] ^= value;
    }
}
