//! The canonical encoding of a block header, whose hash is the block's hash.
//!
//! Every header begins with the same fields. The next ones depend on how blocks are sealed, and
//! forks append more at the end. Appended fields are identified by position: a header ends with the
//! last field that has a value, and a missing field before it is an empty string.
//!
//! | form      | seal                               | appended by forks                     |
//! |-----------|------------------------------------|---------------------------------------|
//! | Ethereum  | mixHash, nonce                     | baseFeePerGas … slotNumber            |
//! | AuRa      | step and signature until the merge | as above                              |
//! | Avalanche | mixHash, nonce, extDataHash        | its own order                         |
//! | Tempo     | as Ethereum                        | three fields before an Ethereum header |

use crate::encoding::{Encoded, Unencodable, big};
use crate::extra_keys::{self, Given};
use crate::keccak::keccak;
use crate::model::{Answer, Block, Hash, U256};
use crate::rlp;
use crate::verdict::HeaderForm;

/// The forks of Avalanche appended these after the fields that Ethereum has too.
const AVALANCHE_NEWER: [&str; 7] = [
    "timestampMilliseconds",
    "minDelayExcess",
    "targetExcess",
    "settledHeight",
    "settledGasUnix",
    "settledGasNumerator",
    "settledExcess",
];
const TEMPO: [&str; 3] = [
    "mainBlockGeneralGasLimit",
    "sharedGasLimit",
    "timestampMillisPart",
];
/// Different clients of AuRa chains use different names.
const AURA_SEALS: [(&str, &str); 2] = [("auraStep", "auraSeal"), ("step", "signature")];

/// Return the hash of the block with this header.
pub fn hash(answer: &Answer, form: HeaderForm) -> Result<Hash, Unencodable> {
    let mut out = Vec::with_capacity(1024);
    let place = rlp::envelope(&mut out, 0, |out| match form {
        HeaderForm::Ethereum => ethereum(out, answer),
        HeaderForm::Aura => aura(out, answer),
        HeaderForm::Avalanche => avalanche(out, answer),
        HeaderForm::Tempo => tempo(out, answer),
    })?;
    Ok(keccak(&out[place]))
}

fn ethereum(out: &mut Vec<u8>, answer: &Answer) -> Encoded {
    front(out, answer)?;
    seal(out, &answer.block)?;
    appended(out, &answer.block);
    Ok(())
}

fn aura(out: &mut Vec<u8>, answer: &Answer) -> Encoded {
    if answer.block.difficulty.unwrap_or_default() == U256::default() {
        return ethereum(out, answer);
    }
    let given = |key| extra_keys::get(answer, key);
    let seals = AURA_SEALS.map(|(step, signature)| given(step).zip(given(signature)));
    let (step, signature) = seals
        .into_iter()
        .flatten()
        .next()
        .ok_or(Unencodable::Unknown)?;
    front(out, answer)?;
    rlp::big_number(out, &step.number()?);
    rlp::string(out, &signature.data()?);
    appended(out, &answer.block);
    Ok(())
}

fn avalanche(out: &mut Vec<u8>, answer: &Answer) -> Encoded {
    let block = &answer.block;
    let hash = extra_keys::get(answer, "extDataHash").ok_or(Unencodable::Unknown)?;
    let number = |key| extra_keys::get(answer, key).map_or(Ok(None), Given::optional_number);
    front(out, answer)?;
    seal(out, block)?;
    rlp::word(out, &hash.word()?);
    let mut end = Trailing::new(out);
    end.number(block.base_fee_per_gas);
    end.number(number("extDataGasUsed")?);
    end.number(number("blockGasCost")?);
    end.number(block.blob_gas_used.map(big));
    end.number(block.excess_blob_gas.map(big));
    end.word(block.parent_beacon_block_root);
    for key in AVALANCHE_NEWER {
        end.number(number(key)?);
    }
    Ok(())
}

fn tempo(out: &mut Vec<u8>, answer: &Answer) -> Encoded {
    let given = TEMPO.map(|key| extra_keys::get(answer, key));
    let is_known = given.iter().all(Option::is_some);
    if !is_known || extra_keys::get(answer, "consensusContext").is_some() {
        return Err(Unencodable::Unknown);
    }
    for each in given.into_iter().flatten() {
        rlp::big_number(out, &each.number()?);
    }
    let mut inner = Ok(());
    rlp::list(out, |out| inner = ethereum(out, answer));
    inner
}

/// Append the fields that all headers begin with.
fn front(out: &mut Vec<u8>, answer: &Answer) -> Encoded {
    let block = &answer.block;
    rlp::word(out, &block.parent_hash);
    rlp::word(out, &block.sha3_uncles);
    rlp::address(out, &block.miner);
    rlp::word(out, &block.state_root);
    rlp::word(out, &block.transactions_root);
    rlp::word(out, &block.receipts_root);
    rlp::bloom(out, required(block.logs_bloom.as_deref(), "logsBloom")?);
    rlp::big_number(out, &required(block.difficulty, "difficulty")?);
    rlp::number(out, block.number);
    rlp::number(out, block.gas_limit);
    rlp::number(out, block.gas_used);
    rlp::number(out, block.timestamp);
    rlp::string(out, answer.bytes(block.extra_data));
    Ok(())
}

fn seal(out: &mut Vec<u8>, block: &Block) -> Encoded {
    rlp::word(out, &required(block.mix_hash, "mixHash")?);
    rlp::string(out, &required(block.nonce, "nonce")?);
    Ok(())
}

fn appended(out: &mut Vec<u8>, block: &Block) {
    let mut end = Trailing::new(out);
    end.number(block.base_fee_per_gas);
    end.word(block.withdrawals_root);
    end.number(block.blob_gas_used.map(big));
    end.number(block.excess_blob_gas.map(big));
    end.word(block.parent_beacon_block_root);
    end.word(block.requests_hash);
    end.word(block.block_access_list_hash);
    end.number(block.slot_number.map(big));
}

/// Appends optional fields up to the last one that has a value.
struct Trailing<'a> {
    out: &'a mut Vec<u8>,
    absent: usize,
}

impl<'a> Trailing<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, absent: 0 }
    }

    fn number(&mut self, value: Option<U256>) {
        if let Some(value) = self.fill(value) {
            rlp::big_number(self.out, &value);
        }
    }

    fn word(&mut self, value: Option<Hash>) {
        if let Some(value) = self.fill(value) {
            rlp::word(self.out, &value);
        }
    }

    /// Before a field that has a value, append an empty string for each absent one.
    fn fill<T>(&mut self, value: Option<T>) -> Option<T> {
        if value.is_some() {
            self.out
                .resize(self.out.len() + self.absent, rlp::EMPTY_STRING);
            self.absent = 0;
        } else {
            self.absent += 1;
        }
        value
    }
}

fn required<T>(field: Option<T>, key: &str) -> Result<T, Unencodable> {
    field.ok_or_else(|| Unencodable::Invalid(format!("its header lacks `{key}`").into()))
}
