//! What the checks of a block conclude: what is proven, or why the block is refused.

/// The checks, in the order of `gapless.chains.evm.check_names.Check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Check {
    Height,
    Link,
    Counts,
    Places,
    Empty,
    Gas,
    ReceiptBlooms,
    Bloom,
    HeaderHash,
    ReceiptsRoot,
    StateSync,
    TransactionsRoot,
    WithdrawalsRoot,
    Derived,
    Prices,
    LogIndex,
    Senders,
    Agreed,
    Anchor,
}

impl Check {
    /// By which `gapless.chains.evm.check_names` calls them.
    pub const NAMES: [&str; 19] = [
        "height",
        "link",
        "counts",
        "places",
        "empty",
        "gas",
        "receipt_blooms",
        "bloom",
        "header_hash",
        "receipts_root",
        "state_sync",
        "transactions_root",
        "withdrawals_root",
        "derived",
        "prices",
        "log_index",
        "senders",
        "agreed",
        "anchor",
    ];

    pub const fn bit(self) -> u32 {
        1 << self as u8
    }

    pub const fn alone(self) -> CheckSet {
        CheckSet(self.bit())
    }
}

/// A set of checks, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckSet(pub u32);

impl CheckSet {
    pub const fn has(self, check: Check) -> bool {
        self.0 & check.bit() != 0
    }

    pub fn add(&mut self, check: Check) {
        self.0 |= check.bit();
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The facts about a network that its checks depend on.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    pub header: HeaderForm,
    pub byzantium: u64,
    /// Polygon: every so many blocks may end with a state-sync transaction; 0 elsewhere.
    pub sprint: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderForm {
    #[default]
    Ethereum,
    Aura,
    Avalanche,
    Tempo,
}

/// What the caller asks about one block.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub height: u64,
    pub network: Network,
    /// The checks that were asked for.
    pub asked: CheckSet,
    /// The checks that the network supports at this height.
    pub supported: CheckSet,
    /// The known hash at this height, if there is one.
    pub anchor: Option<[u8; 32]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    pub proven: CheckSet,
    pub unproven: CheckSet,
}

impl Proof {
    /// What two examinations of one block found.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let proven = self.proven.or(other.proven);
        Self {
            proven,
            unproven: self.unproven.or(other.unproven).without(proven),
        }
    }
}

/// Why a block is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `bad_answer`: the answer is malformed, or contradicts itself in a way that no check names.
    BadAnswer(String),
    /// `bad_block`: a check failed; the finding is a clause such as "its number is 0x5".
    BadBlock(Check, String),
}
