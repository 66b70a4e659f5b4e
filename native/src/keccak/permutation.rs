//! The permutation Keccak-f[1600], of one state, or of several states side by side in vectors.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Words of a state.
pub const WORDS: usize = 25;

/// The same words of several states, one lane each.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Lanes<const N: usize>(pub [[u64; N]; WORDS]);

const ROUNDS: [u64; 24] = [
    0x0000_0000_0000_0001,
    0x0000_0000_0000_8082,
    0x8000_0000_0000_808a,
    0x8000_0000_8000_8000,
    0x0000_0000_0000_808b,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8009,
    0x0000_0000_0000_008a,
    0x0000_0000_0000_0088,
    0x0000_0000_8000_8009,
    0x0000_0000_8000_000a,
    0x0000_0000_8000_808b,
    0x8000_0000_0000_008b,
    0x8000_0000_0000_8089,
    0x8000_0000_0000_8003,
    0x8000_0000_0000_8002,
    0x8000_0000_0000_0080,
    0x0000_0000_0000_800a,
    0x8000_0000_8000_000a,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8080,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8008,
];

/// A word of one state, or the same word of several.
trait Word: Copy {
    fn splat(value: u64) -> Self;
    fn xor(self, other: Self) -> Self;
    fn xor3(self, second: Self, third: Self) -> Self;
    /// Return `self ^ (!second & third)`.
    fn chi(self, second: Self, third: Self) -> Self;
    /// Rotate by `LEFT` bits to the left; `RIGHT` is `64 - LEFT`.
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self;
}

impl Word for u64 {
    #[inline(always)]
    fn splat(value: u64) -> Self {
        value
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    fn xor3(self, second: Self, third: Self) -> Self {
        self ^ second ^ third
    }

    #[inline(always)]
    fn chi(self, second: Self, third: Self) -> Self {
        self ^ (!second & third)
    }

    #[inline(always)]
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        self.rotate_left(LEFT as u32)
    }
}

// SAFETY of both implementations: they are private, and used only by `permute_eight` and
// `permute_four`, whose callers have detected the instructions.
#[cfg(target_arch = "x86_64")]
impl Word for __m512i {
    #[inline(always)]
    fn splat(value: u64) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_set1_epi64(value.cast_signed()) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_xor_si512(self, other) }
    }

    #[inline(always)]
    fn xor3(self, second: Self, third: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_ternarylogic_epi64::<0x96>(self, second, third) }
    }

    #[inline(always)]
    fn chi(self, second: Self, third: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_ternarylogic_epi64::<0xd2>(self, second, third) }
    }

    #[inline(always)]
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        // SAFETY: see above.
        unsafe { _mm512_rol_epi64::<LEFT>(self) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Word for __m256i {
    #[inline(always)]
    fn splat(value: u64) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_set1_epi64x(value.cast_signed()) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { _mm256_xor_si256(self, other) }
    }

    #[inline(always)]
    fn xor3(self, second: Self, third: Self) -> Self {
        self.xor(second).xor(third)
    }

    #[inline(always)]
    fn chi(self, second: Self, third: Self) -> Self {
        // SAFETY: see above.
        self.xor(unsafe { _mm256_andnot_si256(second, third) })
    }

    #[inline(always)]
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        // SAFETY: see above.
        unsafe {
            _mm256_or_si256(
                _mm256_slli_epi64::<LEFT>(self),
                _mm256_srli_epi64::<RIGHT>(self),
            )
        }
    }
}

/// Permute one state.
pub fn permute(state: &mut [u64; WORDS]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
        // SAFETY: the instructions were detected.
        return unsafe { permute_one(state) };
    }
    *state = permuted(*state);
}

/// These instructions combine "and" with "not", and rotate into another register.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2")]
fn permute_one(state: &mut [u64; WORDS]) {
    *state = permuted(*state);
}

/// Permute eight states; only on a CPU with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
pub fn permute_eight(states: &mut Lanes<8>) {
    // SAFETY: both types are plain bits of the same size, and any bits are valid in either.
    let states: &mut [__m512i; WORDS] = unsafe { std::mem::transmute(states) };
    *states = permuted(*states);
}

/// Permute four states; only on a CPU with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub fn permute_four(states: &mut Lanes<4>) {
    // SAFETY: as above.
    let states: &mut [__m256i; WORDS] = unsafe { std::mem::transmute(states) };
    *states = permuted(*states);
}

/// The rounds, with the steps theta, rho, pi, chi and iota of the specification merged by row.
#[inline(always)]
fn permuted<T: Word>(mut a: [T; WORDS]) -> [T; WORDS] {
    for constant in ROUNDS {
        let column = |x: usize| a[x].xor3(a[x + 5], a[x + 10]).xor3(a[x + 15], a[x + 20]);
        let c = [column(0), column(1), column(2), column(3), column(4)];
        let r = c.map(|it| it.rotate::<1, 63>());
        macro_rules! moved {
            ($at:literal, $by:literal) => {{
                const X: usize = $at % 5;
                a[$at]
                    .xor3(c[(X + 4) % 5], r[(X + 1) % 5])
                    .rotate::<$by, { 64 - $by }>()
            }};
        }
        let rows = [
            [
                a[0].xor3(c[4], r[1]),
                moved!(6, 44),
                moved!(12, 43),
                moved!(18, 21),
                moved!(24, 14),
            ],
            [
                moved!(3, 28),
                moved!(9, 20),
                moved!(10, 3),
                moved!(16, 45),
                moved!(22, 61),
            ],
            [
                moved!(1, 1),
                moved!(7, 6),
                moved!(13, 25),
                moved!(19, 8),
                moved!(20, 18),
            ],
            [
                moved!(4, 27),
                moved!(5, 36),
                moved!(11, 10),
                moved!(17, 15),
                moved!(23, 56),
            ],
            [
                moved!(2, 62),
                moved!(8, 55),
                moved!(14, 39),
                moved!(15, 41),
                moved!(21, 2),
            ],
        ];
        for (y, b) in rows.into_iter().enumerate() {
            a[5 * y] = b[0].chi(b[1], b[2]);
            a[5 * y + 1] = b[1].chi(b[2], b[3]);
            a[5 * y + 2] = b[2].chi(b[3], b[4]);
            a[5 * y + 3] = b[3].chi(b[4], b[0]);
            a[5 * y + 4] = b[4].chi(b[0], b[1]);
        }
        a[0] = a[0].xor(T::splat(constant));
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 0xf125_8f79_40e1_dde7;

    #[test]
    fn permutes_the_empty_state_as_the_specification_does() {
        let mut state = [0; WORDS];
        permute(&mut state);
        assert_eq!(state[0], SECOND);
        assert_eq!(permuted([0u64; WORDS]), state);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn permutes_each_lane_on_its_own() {
        let of_lane = |lane: usize| std::array::from_fn(|word| (lane * 31 + word) as u64);
        if is_x86_feature_detected!("avx512f") {
            let mut states = Lanes(std::array::from_fn(|at| {
                std::array::from_fn(|it| of_lane(it)[at])
            }));
            // SAFETY: the instructions were detected.
            unsafe { permute_eight(&mut states) };
            for lane in 0..8 {
                assert_eq!(states.0.map(|word| word[lane]), permuted(of_lane(lane)));
            }
        }
        if is_x86_feature_detected!("avx2") {
            let mut states = Lanes(std::array::from_fn(|at| {
                std::array::from_fn(|it| of_lane(it)[at])
            }));
            // SAFETY: the instructions were detected.
            unsafe { permute_four(&mut states) };
            for lane in 0..4 {
                assert_eq!(states.0.map(|word| word[lane]), permuted(of_lane(lane)));
            }
        }
    }
}
