//! What a lease comes to: by who ended it, when, and one's own records, whatever is said of it.

use mercato_broker::{
    Bill, Closing, Command, EndCause, Ending, Facts, Mark, Provisioned, Record, RecordKey, Side,
    Stage, ending,
};
use mercato_protocol::id::NegotiationId;
use mercato_protocol::invoice::{Credit, CreditKind, Notice};
use mercato_protocol::negotiation::{Body, CloseReason, State};
use mercato_protocol::price::Money;
use proptest::prelude::*;

use crate::liars::{
    WORDS, bill_saying, bought, deal, drop_words, due, end_saying, pass, settle_changing, take_off,
    used,
};
use crate::world::{BUYER, SELLER, World};

/// How far the lease is when somebody closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Pending,
    Running,
    Suspended,
    Reclaiming,
    Over,
}

/// What is said: a word about an end, or nothing at all from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Word(CloseReason),
    Nothing,
}

/// What the judging side has of it: who ended it, why, its bill and its mark, and what is due by the
/// bill of both.
type Row = (Side, EndCause, Bill, Option<Mark>, Option<u64>);

const CLOCKS: [&str; 4] = ["before", "near the notice's time", "near the term's end", "after"];

use EndCause as C;
use Side::{Consumer as CON, Provider as PRO};

const WHOLE: Bill = Bill::Whole;
const LESS: Bill = Bill::LessNotice { missing_ms: 60_000 };
const GOOD: Option<Mark> = Some(Mark::Good);
const BAD: Option<Mark> = Some(Mark::Bad);

/// The same whatever the word is. By who speaks and the stage: one for each clock.
#[rustfmt::skip]
fn expected(by: Side, at: At) -> [Row; 4] {
    match (by, at) {
        (PRO, At::Pending) => [
            (PRO, C::ProvisioningFailed, Bill::Nothing, BAD, None),
            (PRO, C::ProvisioningFailed, Bill::Nothing, BAD, None),
            (PRO, C::Expired, WHOLE, GOOD, None),
            (CON, C::Expired, WHOLE, GOOD, None),
        ],
        (CON, At::Pending) => [
            (CON, C::Cancelled, WHOLE, None, None),
            (CON, C::Cancelled, WHOLE, None, None),
            (CON, C::Expired, WHOLE, GOOD, None),
            (PRO, C::Expired, WHOLE, GOOD, None),
        ],
        (PRO, At::Running | At::Suspended) => [
            (PRO, C::EndedByProvider, LESS, BAD, Some(140_000)),
            (PRO, C::EndedByProvider, LESS, BAD, Some(490_000)),
            (PRO, C::Expired, WHOLE, GOOD, Some(1_180_000)),
            (CON, C::Expired, WHOLE, GOOD, Some(1_200_000)),
        ],
        (CON, At::Running | At::Suspended) => [
            (CON, C::Cancelled, WHOLE, None, Some(200_000)),
            (CON, C::Cancelled, WHOLE, None, Some(550_000)),
            (CON, C::Expired, WHOLE, GOOD, Some(1_180_000)),
            (PRO, C::Expired, WHOLE, GOOD, Some(1_200_000)),
        ],
        (PRO, At::Reclaiming) => [
            (PRO, C::EndedByProvider, LESS, BAD, Some(140_000)),
            (PRO, C::Reclaimed, WHOLE, GOOD, Some(550_000)),
            (PRO, C::Reclaimed, WHOLE, GOOD, Some(570_000)),
            (PRO, C::Reclaimed, WHOLE, GOOD, Some(570_000)),
        ],
        (CON, At::Reclaiming) => [
            (CON, C::Cancelled, WHOLE, None, Some(200_000)),
            (CON, C::Reclaimed, WHOLE, None, Some(550_000)),
            (PRO, C::Reclaimed, WHOLE, None, Some(570_000)),
            (PRO, C::Reclaimed, WHOLE, None, Some(570_000)),
        ],
        (_, At::Over) => [(CON, C::Cancelled, WHOLE, None, Some(100_000)); 4],
    }
}

/// The other side says nothing from then on: this side ends by its own clock and records.
#[rustfmt::skip]
fn expected_of_silence(by: Side, at: At) -> [Row; 4] {
    match (by, at) {
        (PRO, At::Pending) => [(CON, C::Expired, WHOLE, GOOD, None); 4],
        (CON, At::Pending) => [(PRO, C::Expired, WHOLE, GOOD, None); 4],
        (PRO, At::Running) => [
            (CON, C::Expired, WHOLE, GOOD, None),
            (CON, C::Expired, WHOLE, GOOD, None),
            (CON, C::Expired, WHOLE, GOOD, None),
            (CON, C::Expired, WHOLE, GOOD, Some(1_200_000)),
        ],
        (PRO, At::Suspended) => [(CON, C::Expired, WHOLE, GOOD, None); 4],
        (CON, At::Running) => [
            (PRO, C::Unsigned, WHOLE, BAD, None),
            (PRO, C::Unsigned, WHOLE, BAD, None),
            (PRO, C::Expired, WHOLE, GOOD, None),
            (PRO, C::Expired, WHOLE, GOOD, Some(1_200_000)),
        ],
        (CON, At::Suspended) => [
            (PRO, C::Unsigned, WHOLE, BAD, None),
            (PRO, C::Unsigned, WHOLE, BAD, None),
            (PRO, C::Expired, WHOLE, GOOD, None),
            (PRO, C::Expired, WHOLE, GOOD, None),
        ],
        (PRO, At::Reclaiming) => [
            (CON, C::Reclaimed, WHOLE, GOOD, None),
            (CON, C::Reclaimed, WHOLE, GOOD, None),
            (PRO, C::Reclaimed, WHOLE, GOOD, Some(570_000)),
            (PRO, C::Reclaimed, WHOLE, GOOD, Some(570_000)),
        ],
        // Closed over unsigned reports just before the time that its notice names.
        (CON, At::Reclaiming) => [
            (PRO, C::Reclaimed, WHOLE, None, None),
            (PRO, C::Reclaimed, WHOLE, None, None),
            (PRO, C::Reclaimed, WHOLE, None, Some(570_000)),
            (PRO, C::Reclaimed, WHOLE, None, Some(570_000)),
        ],
        (_, At::Over) => [(CON, C::Cancelled, WHOLE, None, Some(100_000)); 4],
    }
}

/// Seconds from the beginning at which it is closed, for each clock.
fn moments(at: At) -> [u64; 4] {
    match at {
        At::Pending => [20, 40, 90, 150],
        At::Running | At::Suspended | At::Reclaiming | At::Over => [200, 550, 1_180, 1_240],
    }
}

/// A lease at that stage at that moment.
fn prepared(at: At, moment_s: u64) -> (World, NegotiationId) {
    if at == At::Pending {
        let (mut world, id) = bought(110);
        for _ in 0..moment_s / 10 {
            world.advance(10_000);
            while !world.wire.is_empty() {
                world.deliver(0);
            }
        }
        return (world, id);
    }
    let (mut world, id) = used(1_200);
    match at {
        At::Pending | At::Running => pass(&mut world, moment_s),
        At::Suspended => {
            // Of windows of thirty seconds each counts as a minute: three suspend, and six close.
            pass(&mut world, moment_s - 200);
            unsigned(&mut world, 200);
            let state = deal(&world, SELLER, id).state();
            let expected = if moment_s > 1_200 { State::Closed } else { State::Suspended };
            assert_eq!(state, expected, "after {moment_s} s");
        }
        At::Reclaiming => {
            pass(&mut world, 100);
            let (notice_s, text) = (Some(470), String::new());
            let reclaim = Command::Reclaim { contract: id.into(), notice_s, text };
            world.command(SELLER, reclaim).unwrap();
            world.settle();
            pass(&mut world, moment_s - 100);
        }
        At::Over => {
            pass(&mut world, 100);
            world.command(BUYER, Command::Cancel { deal: id, text: String::new() }).unwrap();
            world.settle();
            pass(&mut world, moment_s - 100);
        }
    }
    (world, id)
}

/// Time passes in which no receipt arrives.
fn unsigned(world: &mut World, for_s: u64) {
    for _ in 0..for_s / 10 {
        world.advance(10_000);
        settle_changing(world, |world| {
            drop_words(world, BUYER, |body| matches!(body, Body::UsageReceipt { .. }));
        });
        while world.local_waits() {
            [SELLER, BUYER].into_iter().for_each(|node| world.report_local(node));
        }
    }
}

fn judged(world: &World, judge: usize, id: NegotiationId) -> Row {
    let Ending { by, cause, bill, mark } =
        *deal(world, judge, id).end().and_then(|end| end.ending).expect("it has ended");
    (by, cause, bill, mark, due(world, judge, id))
}

#[test]
fn a_word_of_the_other_side_decides_nothing() {
    let words = WORDS.into_iter().map(Said::Word).chain([Said::Nothing]);
    let stages = [At::Pending, At::Running, At::Suspended, At::Reclaiming, At::Over];
    let (mut cases, mut silent) = (0, 0);
    for said in words {
        for by in [PRO, CON] {
            for at in stages {
                for (clock, moment_s) in moments(at).into_iter().enumerate() {
                    let (mut world, id) = prepared(at, moment_s);
                    let (liar, judge) = if by == PRO { (SELLER, BUYER) } else { (BUYER, SELLER) };
                    let row = match said {
                        Said::Word(word) => {
                            end_saying(&mut world, liar, id, word);
                            world.settle();
                            pass(&mut world, 70);
                            expected(by, at)[clock]
                        }
                        Said::Nothing => {
                            silent += 1;
                            for _ in 0..140 {
                                world.advance(10_000);
                                settle_changing(&mut world, |world| {
                                    drop_words(world, liar, |_| true);
                                });
                            }
                            expected_of_silence(by, at)[clock]
                        }
                    };
                    let case = (said, by, at, CLOCKS[clock]);
                    assert_eq!(judged(&world, judge, id), row, "{case:?}");
                    cases += 1;
                }
            }
        }
    }
    assert_eq!((cases, silent), (320, 40));
}

/// Of a lease in use at the buyer: 100 s are over of 600, and by notice it ends at 300.
fn facts() -> Facts {
    Facts {
        side: Side::Consumer,
        stage: Stage::Running,
        provisioned: Provisioned::Wordless,
        ready_by_ms: 120_000,
        not_after_ms: 600_000,
        notice: None,
        promised_ms: 60_000,
        unsigned: false,
        withheld: false,
    }
}

fn end(by: Side, at_ms: u64, facts: Facts) -> (EndCause, Bill, Option<Mark>) {
    let Ending { cause, bill, mark, .. } = ending(Closing { by, at_ms, said: None }, &facts);
    (cause, bill, mark)
}

/// Rows that wait for words of the protocol that there are not yet.
#[test]
fn what_was_not_delivered_is_the_providers_fault() {
    let pending = Facts { stage: Stage::Pending, ..facts() };
    let unheard = Facts { provisioned: Provisioned::Unheard, ..pending };
    let heard = |ms| Facts { provisioned: Provisioned::Heard(ms), ..pending };
    let sold = |facts: Facts| Facts { side: Side::Provider, ..facts };
    let failed = |mark| (C::ProvisioningFailed, Bill::Nothing, mark);
    let withheld = Facts { withheld: true, ..facts() };
    let rows = [
        // The buyer ends what was not ready in time; a moment before, that is its own wish.
        (CON, 120_000, unheard, (C::NotDelivered, Bill::Nothing, BAD)),
        (CON, 119_999, unheard, (C::Cancelled, WHOLE, None)),
        (CON, 120_000, heard(100_000), (C::Cancelled, WHOLE, None)),
        (CON, 120_000, sold(unheard), (C::Cancelled, WHOLE, None)),
        (CON, 100_000, withheld, (C::NotDelivered, WHOLE, BAD)),
        (CON, 100_000, sold(withheld), (C::Cancelled, WHOLE, None)),
        // The provider ends it: whose fault that is depends on who was late.
        (PRO, 120_000, unheard, failed(BAD)),
        (PRO, 120_000, heard(90_000), failed(None)),
        (PRO, 120_000, heard(90_001), failed(BAD)),
        (PRO, 89_999, heard(10_000), failed(BAD)),
        (PRO, 90_000, heard(10_000), failed(None)),
        (PRO, 120_000, sold(unheard), failed(None)),
    ];
    for (row, (by, at_ms, facts, expected)) in rows.into_iter().enumerate() {
        assert_eq!(end(by, at_ms, facts), expected, "row {row}");
    }
}

/// Each row of the rules at its edges, in the eyes of either side.
#[test]
fn a_row_holds_from_a_moment_on() {
    let noticed = |given_ms| {
        let notice = Some(Notice { given_ms, until_ms: 300_000 });
        Facts { notice, ..facts() }
    };
    let sold = |facts: Facts| Facts { side: Side::Provider, ..facts };
    let unsigned = Facts { unsigned: true, ..facts() };
    let short = Bill::LessNotice { missing_ms: 25_000 };
    let rows = [
        (PRO, 569_999, facts(), (C::EndedByProvider, LESS, BAD)),
        (PRO, 570_000, facts(), (C::Expired, WHOLE, GOOD)),
        (CON, 570_000, sold(facts()), (C::Expired, WHOLE, GOOD)),
        (PRO, 269_999, noticed(100_000), (C::EndedByProvider, LESS, BAD)),
        (PRO, 270_000, noticed(100_000), (C::Reclaimed, WHOLE, GOOD)),
        (PRO, 270_000, noticed(265_000), (C::Reclaimed, short, BAD)),
        (PRO, 270_000, sold(noticed(265_000)), (C::Reclaimed, short, None)),
        (CON, 269_999, noticed(100_000), (C::Cancelled, WHOLE, None)),
        (CON, 270_000, noticed(265_000), (C::Reclaimed, short, BAD)),
        (PRO, 570_000, noticed(265_000), (C::Expired, WHOLE, GOOD)),
        (PRO, 100_000, unsigned, (C::Unsigned, WHOLE, None)),
        (PRO, 100_000, sold(unsigned), (C::Unsigned, WHOLE, BAD)),
        (PRO, 100_000, sold(facts()), (C::EndedByProvider, LESS, None)),
        (PRO, 100_000, Facts { promised_ms: 0, ..facts() }, (C::EndedByProvider, WHOLE, BAD)),
        (CON, 100_000, unsigned, (C::Cancelled, WHOLE, None)),
    ];
    for (row, (by, at_ms, facts, expected)) in rows.into_iter().enumerate() {
        assert_eq!(end(by, at_ms, facts), expected, "row {row}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The buyer would take 60,000 off.
    #[test]
    fn a_cheaper_bill_is_signed_and_a_dearer_one_is_not(
        off in prop_oneof![0..300_000u64, 59_990..60_010u64],
        two in any::<bool>(),
        word in 0..WORDS.len(),
        notice in any::<bool>(),
    ) {
        let (mut world, id) = used(600);
        pass(&mut world, 300);
        world.command(SELLER, Command::Cancel { deal: id, text: String::new() }).unwrap();
        settle_changing(&mut world, |world| {
            let given_ms = world.now_ms - 100_000;
            bill_saying(world, |invoice| {
                let of = |kind, micros| {
                    let currency = "EUR".parse().unwrap();
                    Credit { kind, amount: Money { micros, currency } }
                };
                let parts = if two { (off / 3, off - off / 3) } else { (0, off) };
                let availability = of(CreditKind::Availability, parts.0);
                take_off(invoice, vec![availability, of(CreditKind::ReclaimNotice, parts.1)]);
                invoice.closed = WORDS[word];
                invoice.notice = notice.then_some(Notice { given_ms, until_ms: given_ms });
            });
        });
        let expected = (off >= 60_000).then_some(300_000 - off);
        prop_assert_eq!(due(&world, BUYER, id), expected);
    }
}

/// An earlier release kept the word alone, and went by it.
#[test]
fn what_an_earlier_release_has_settled_is_read() {
    let rows = [
        (CloseReason::Expired, (PRO, C::Expired, WHOLE, GOOD)),
        (CloseReason::Cancelled, (CON, C::Cancelled, WHOLE, GOOD)),
        (CloseReason::EndedByProvider, (PRO, C::EndedByProvider, LESS, BAD)),
        (CloseReason::Reclaimed, (PRO, C::Reclaimed, LESS, BAD)),
        (CloseReason::Unsigned, (PRO, C::Unsigned, WHOLE, None)),
        (CloseReason::ProvisioningFailed, (PRO, C::ProvisioningFailed, Bill::Nothing, BAD)),
        (CloseReason::Breach, (PRO, C::EndedByProvider, WHOLE, BAD)),
    ];
    let (mut world, id) = used(600);
    pass(&mut world, 60);
    end_saying(&mut world, SELLER, id, CloseReason::EndedByProvider);
    world.settle();
    for (word, expected) in rows {
        let kept = &world.nodes[BUYER].records[&RecordKey::Deal(id)];
        let mut kept = serde_json::to_value(kept).unwrap();
        let deal_of = kept["Deal"].as_object_mut().unwrap();
        deal_of.remove("ending");
        assert!(!deal_of.contains_key("reclaimWaits"), "it is written where it is so alone");
        deal_of["stage"]["closed"]["reason"] = serde_json::to_value(word).unwrap();
        let kept: Record = serde_json::from_value(kept).unwrap();
        world.nodes[BUYER].records.insert(kept.key(), kept);
        world.crash(BUYER);
        let Ending { by, cause, bill, mark } =
            *deal(&world, BUYER, id).end().unwrap().ending.unwrap();
        assert_eq!((by, cause, bill, mark), expected, "{word:?}");
    }
}
