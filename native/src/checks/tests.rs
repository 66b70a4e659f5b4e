//! A block that is sealed here, and what its checks conclude if one thing about it changes.

use super::*;
use crate::bloom;
use crate::completion::complete;
use crate::encoding::{self, big};
use crate::header;
use crate::keccak::keccak;
use crate::model::{
    Hash, Log, RangeLog, RangeLogs, Receipt, Slice, Transaction, Transactions, Withdrawal,
};
use crate::rlp;
use crate::trie::Items;
use crate::verdict::{HeaderForm, Network};

type Alter = fn(&mut Answer);

const HEIGHT: u64 = 64;
/// The sender of the example in EIP-155.
const SENDER: [u8; 20] = [
    0x9d, 0x8a, 0x62, 0xf6, 0x56, 0xa8, 0xd1, 0x61, 0x5c, 0x12, 0x94, 0xfd, 0x71, 0xe9, 0xcf, 0xb3,
    0xe4, 0x85, 0x5a, 0x4f,
];

fn word(digits: &str) -> Hash {
    std::array::from_fn(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
}

fn all() -> CheckSet {
    [PLAIN, PROOFS, IMPLIED, FURTHER]
        .iter()
        .fold(CheckSet::default(), |it, more| it.or(named(more)))
}

fn question() -> Question {
    let network = Network {
        header: HeaderForm::Ethereum,
        byzantium: 0,
        sprint: 0,
    };
    Question {
        height: HEIGHT,
        network,
        asked: all(),
        supported: all(),
        anchor: None,
    }
}

/// The example of EIP-155.
fn signed() -> Transaction {
    Transaction {
        block_number: HEIGHT,
        from: SENDER,
        to: Some([0x35; 20]),
        nonce: 9,
        gas: 21_000,
        kind: Some(0),
        value: Some(big(1_000_000_000_000_000_000)),
        gas_price: Some(big(20_000_000_000)),
        input: Some(Slice::default()),
        v: Some(37),
        r: Some(word(
            "28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276",
        )),
        s: Some(word(
            "67cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83",
        )),
        chain_id: Some(big(1)),
        ..Transaction::default()
    }
}

/// A block with a transaction, a receipt with a log, and a withdrawal.
fn sealed() -> Answer {
    let mut answer = Answer {
        arena: b"data".to_vec(),
        ..Answer::default()
    };
    let data = Slice { start: 0, len: 4 };
    answer.logs = vec![Log {
        address: [7; 20],
        topic_count: 2,
        data,
        ..Log::default()
    }];
    answer.receipts = Some(vec![Receipt {
        block_number: HEIGHT,
        cumulative_gas_used: 30_000,
        logs: Slice { start: 0, len: 1 },
        status: Some(1),
        logs_bloom: Some(Box::new(bloom::of_logs(&answer.logs))),
        gas_used: Some(30_000),
        effective_gas_price: Some(big(20_000_000_000)),
        ..Receipt::default()
    }]);
    let block = &mut answer.block;
    block.number = HEIGHT;
    block.gas_used = 30_000;
    block.sha3_uncles = keccak(&[rlp::EMPTY_LIST]);
    block.difficulty = Some(big(0));
    block.mix_hash = Some([3; 32]);
    block.nonce = Some([0; 8]);
    block.base_fee_per_gas = Some(big(7));
    block.transactions = Transactions::Full(vec![signed()]);
    block.withdrawals = Some(vec![Withdrawal {
        amount: 5,
        ..Withdrawal::default()
    }]);
    seal(&mut answer);
    answer
}

/// Compute all roots and hashes, as the chain would.
fn seal(answer: &mut Answer) {
    let mut items = Items::default();
    let transaction = transaction(answer);
    items
        .push(0, |out| encoding::transaction(out, transaction, answer))
        .unwrap();
    let (root, hashes) = items.root_and_hashes();
    let mut items = Items::default();
    let receipt = &answer.receipts.as_ref().unwrap()[0];
    items
        .push(0, |out| encoding::receipt(out, receipt, answer))
        .unwrap();
    let receipts_root = items.root();
    let mut items = Items::default();
    for each in answer.block.withdrawals.iter().flatten() {
        items.push_plain(|out| encoding::withdrawal(out, each));
    }
    let block = &mut answer.block;
    block.withdrawals_root = Some(items.root());
    block.transactions_root = root;
    block.receipts_root = receipts_root;
    block.logs_bloom = Some(Box::new(bloom::of_logs(&answer.logs)));
    let hash = header::hash(answer, HeaderForm::Ethereum).unwrap();
    answer.block.hash = hash;
    transaction_mut(answer).hash = hashes[0];
    transaction_mut(answer).block_hash = hash;
    receipt_mut(answer).transaction_hash = hashes[0];
    receipt_mut(answer).block_hash = hash;
}

fn transaction(answer: &Answer) -> &Transaction {
    let Transactions::Full(rows) = &answer.block.transactions else {
        panic!("it is light")
    };
    &rows[0]
}

fn transaction_mut(answer: &mut Answer) -> &mut Transaction {
    let Transactions::Full(rows) = &mut answer.block.transactions else {
        panic!("it is light")
    };
    &mut rows[0]
}

fn receipt_mut(answer: &mut Answer) -> &mut Receipt {
    &mut answer.receipts.as_mut().unwrap()[0]
}

fn refused_by(answer: &Answer, question: &Question) -> Check {
    match check(answer, question) {
        Err(Refusal::BadBlock(check, _)) => check,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_example_of_eip_155_has_its_known_hash() {
    let known = word("33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788");
    assert_eq!(transaction(&sealed()).hash, known);
}

#[test]
fn a_sealed_block_passes_all_checks() {
    let proof = check(&sealed(), &question()).unwrap();
    assert_eq!(
        proof,
        Proof {
            proven: all(),
            unproven: CheckSet::default()
        }
    );
}

#[test]
fn each_alteration_is_refused_by_the_check_that_notices_it_first() {
    let alterations: [(Check, Alter); 16] = [
        (Check::Height, |it| it.block.number += 1),
        (Check::Counts, |it| it.receipts = Some(Vec::new())),
        (Check::Places, |it| {
            transaction_mut(it).transaction_index = 1
        }),
        (Check::Places, |it| {
            receipt_mut(it).transaction_hash = [0; 32]
        }),
        (Check::Places, |it| receipt_mut(it).block_hash = [0; 32]),
        (Check::Empty, |it| it.block.withdrawals = None),
        (Check::Empty, |it| it.block.uncles.push([0; 32])),
        (Check::HeaderHash, |it| it.block.timestamp += 1),
        (Check::HeaderHash, |it| it.block.mix_hash = None),
        (Check::Gas, |it| receipt_mut(it).cumulative_gas_used += 1),
        (Check::ReceiptBlooms, |it| it.logs[0].address = [8; 20]),
        (Check::ReceiptsRoot, |it| it.logs[0].data = Slice::default()),
        (Check::TransactionsRoot, |it| transaction_mut(it).nonce += 1),
        (Check::WithdrawalsRoot, |it| {
            it.block.withdrawals.as_mut().unwrap()[0].amount += 1
        }),
        (Check::LogIndex, |it| it.logs[0].log_index = 1),
        (Check::Senders, |it| transaction_mut(it).from = [1; 20]),
    ];
    for (at, (expected, alter)) in alterations.into_iter().enumerate() {
        let mut answer = sealed();
        alter(&mut answer);
        assert_eq!(
            refused_by(&answer, &question()),
            expected,
            "alteration {at}"
        );
    }
}

#[test]
fn fields_that_follow_from_others_must_not_contradict_them() {
    let alterations: [(Check, Alter); 6] = [
        (Check::Derived, |it| receipt_mut(it).gas_used = Some(1)),
        (Check::Derived, |it| it.logs[0].removed = true),
        (Check::Derived, |it| receipt_mut(it).blob_gas_used = Some(1)),
        (Check::Derived, |it| {
            receipt_mut(it).contract_address = Some([1; 20])
        }),
        (Check::Derived, |it| {
            transaction_mut(it).chain_id = Some(big(2))
        }),
        (Check::Prices, |it| {
            receipt_mut(it).effective_gas_price = Some(big(1))
        }),
    ];
    for (at, (expected, alter)) in alterations.into_iter().enumerate() {
        let mut answer = sealed();
        alter(&mut answer);
        assert_eq!(
            refused_by(&answer, &question()),
            expected,
            "alteration {at}"
        );
    }
}

#[test]
fn a_block_of_another_chain_than_the_known_one_is_refused_first() {
    let mut answer = sealed();
    answer.block.number += 1;
    let anchored = Question {
        anchor: Some([1; 32]),
        ..question()
    };
    assert_eq!(refused_by(&answer, &anchored), Check::Anchor);
}

#[test]
fn checks_that_are_not_possible_stay_unproven() {
    let mut answer = sealed();
    answer.receipts = None;
    let proof = check(&answer, &question()).unwrap();
    assert!(proof.unproven.has(Check::ReceiptsRoot) && proof.unproven.has(Check::Counts));
    assert!(proof.proven.has(Check::TransactionsRoot));
    let mut answer = sealed();
    transaction_mut(&mut answer).kind = Some(0x64);
    let proof = check(&answer, &question()).unwrap();
    assert!(proof.unproven.has(Check::TransactionsRoot) && proof.unproven.has(Check::Senders));
    let early = Network {
        byzantium: HEIGHT + 1,
        ..question().network
    };
    let proof = check(
        &sealed(),
        &Question {
            network: early,
            ..question()
        },
    )
    .unwrap();
    assert_eq!(proof.unproven, Check::ReceiptsRoot.alone());
}

#[test]
fn a_type_that_only_the_transaction_has_does_not_avoid_the_proof() {
    let mut answer = sealed();
    transaction_mut(&mut answer).kind = Some(0x64);
    receipt_mut(&mut answer).kind = Some(0);
    assert_eq!(refused_by(&answer, &question()), Check::TransactionsRoot);
}

#[test]
fn headers_of_other_forms_need_keys_without_a_column() {
    for form in [HeaderForm::Avalanche, HeaderForm::Tempo] {
        let network = Network {
            header: form,
            ..question().network
        };
        let proof = check(
            &sealed(),
            &Question {
                network,
                ..question()
            },
        )
        .unwrap();
        assert_eq!(proof.unproven, Check::HeaderHash.alone());
    }
    // After the merge, a header of Gnosis is one of Ethereum.
    let network = Network {
        header: HeaderForm::Aura,
        ..question().network
    };
    let proof = check(
        &sealed(),
        &Question {
            network,
            ..question()
        },
    )
    .unwrap();
    assert!(proof.proven.has(Check::HeaderHash));
}

#[test]
fn a_state_sync_transaction_is_outside_the_roots() {
    let mut answer = sealed();
    let key = [
        b"matic-bor-receipt-",
        &HEIGHT.to_be_bytes()[..],
        &answer.block.hash,
    ]
    .concat();
    let (block_hash, hash) = (answer.block.hash, keccak(&key));
    let Transactions::Full(rows) = &mut answer.block.transactions else {
        panic!("it is light")
    };
    rows.push(Transaction {
        hash,
        block_hash,
        block_number: HEIGHT,
        transaction_index: 1,
        ..Transaction::default()
    });
    assert_eq!(refused_by(&answer, &question()), Check::Counts);
    answer.receipts.as_mut().unwrap().push(Receipt {
        transaction_hash: hash,
        block_hash,
        block_number: HEIGHT,
        transaction_index: 1,
        logs_bloom: Some(Box::new(bloom::EMPTY)),
        ..Receipt::default()
    });
    let network = Network {
        sprint: 16,
        ..question().network
    };
    let proof = check(
        &answer,
        &Question {
            network,
            ..question()
        },
    )
    .unwrap();
    assert_eq!(
        proof,
        Proof {
            proven: all(),
            unproven: Check::StateSync.alone()
        }
    );
}

#[test]
fn logs_without_receipts_are_compared_with_the_bloom_and_a_second_endpoint() {
    let mut answer = sealed();
    answer.receipts = None;
    let log = |answer: &mut Answer| RangeLog {
        log: answer.logs.pop().unwrap(),
        block_hash: answer.block.hash,
        block_number: HEIGHT,
        transaction_hash: transaction(answer).hash,
        transaction_index: 0,
    };
    let logs = vec![log(&mut answer)];
    let mut other = log(&mut sealed());
    other.log.log_index = 9;
    answer.range = Some(RangeLogs {
        logs,
        others: Some(vec![other]),
    });
    let proof = check(&answer, &question()).unwrap();
    assert!(proof.proven.has(Check::Bloom) && proof.proven.has(Check::Agreed));
    answer.range.as_mut().unwrap().others.as_mut().unwrap()[0]
        .log
        .data = Slice::default();
    assert_eq!(refused_by(&answer, &question()), Check::Agreed);
    answer.range.as_mut().unwrap().others = Some(Vec::new());
    assert!(
        !check(&answer, &question())
            .unwrap()
            .proven
            .has(Check::Agreed)
    );
    answer.range.as_mut().unwrap().logs[0].transaction_index = 1;
    assert_eq!(refused_by(&answer, &question()), Check::Places);
    answer.range.as_mut().unwrap().logs.clear();
    assert_eq!(refused_by(&answer, &question()), Check::Bloom);
}

#[test]
fn completion_fills_in_what_follows() {
    let mut answer = sealed();
    let expected = answer.block.logs_bloom.take();
    transaction_mut(&mut answer).kind = None;
    let receipt = receipt_mut(&mut answer);
    (receipt.gas_used, receipt.effective_gas_price) = (None, None);
    complete(&mut answer, &question());
    assert_eq!(answer.block.logs_bloom, expected);
    assert_eq!(transaction(&answer).kind, Some(0));
    let receipt = receipt_mut(&mut answer);
    assert_eq!(receipt.gas_used, Some(30_000));
    assert_eq!(receipt.effective_gas_price, Some(big(20_000_000_000)));
    assert_eq!(receipt.contract_address, None);
    assert_eq!(check(&answer, &question()).unwrap().proven, all());
}

#[test]
fn completion_computes_the_created_contract() {
    let mut answer = sealed();
    let it = transaction_mut(&mut answer);
    (it.to, it.nonce) = (None, 0);
    it.from = *word("6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0000000000000000000000000")
        .first_chunk()
        .unwrap();
    complete(&mut answer, &question());
    // A known address of that creator.
    let created = word("cd234a471b72ba2f1ccf0a70fcaba648a5eecd8d000000000000000000000000");
    assert_eq!(
        receipt_mut(&mut answer).contract_address,
        created.first_chunk().copied()
    );
}

#[test]
fn the_genesis_of_ethereum_has_its_known_hash() {
    let mut answer = Answer {
        arena: word("11bbe8db4e347b4e8c937c1c8370e4b5ed33adb3db69cbdb7a38e1e50b1b82fa").to_vec(),
        ..Answer::default()
    };
    let empty = crate::trie::EMPTY_ROOT;
    let block = &mut answer.block;
    block.sha3_uncles = keccak(&[rlp::EMPTY_LIST]);
    block.state_root = word("d7f8974fb5ac78d9ac099b9ad5018bedc2ce0a72dad1827a1709da30580f0544");
    (block.transactions_root, block.receipts_root) = (empty, empty);
    block.logs_bloom = Some(Box::new(bloom::EMPTY));
    block.difficulty = Some(big(0x4_0000_0000));
    block.gas_limit = 5000;
    block.extra_data = Slice { start: 0, len: 32 };
    block.mix_hash = Some([0; 32]);
    block.nonce = Some(0x42u64.to_be_bytes());
    let known = word("d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3");
    assert_eq!(header::hash(&answer, HeaderForm::Ethereum), Ok(known));
}
