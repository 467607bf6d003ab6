//! Mixed faults by seed: what arrives was sent, and arrives once; when the faults stop, packets
//! flow again within the time of one handshake.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::is_full;
use crate::network::{Faults, Network};

fn seeds() -> u32 {
    if is_full() { 10_000 } else { 120 }
}

fn faults() -> impl Strategy<Value = Faults> {
    (0_u32..50, 0_u32..30, 0_u32..20, 1_u64..200).prop_map(|(lost, doubled, damaged, delay_ms)| {
        Faults {
            lost_percent: lost,
            doubled_percent: doubled,
            damaged_percent: damaged,
            delay_ms,
            ..Faults::none()
        }
    })
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize, u8),
    Wait(u64),
    Restart(usize),
    Move(usize, u8),
    SetBack(usize, u64),
    Narrow(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let side = 0_usize..2;
    let step = prop_oneof![
        12 => (side.clone(), 1_u8..20).prop_map(|(side, count)| Step::Send(side, count)),
        8 => (1_u64..4_000).prop_map(Step::Wait),
        2 => (20_000_u64..200_000).prop_map(Step::Wait),
        1 => side.clone().prop_map(Step::Restart),
        1 => (side.clone(), any::<u8>()).prop_map(|(side, port)| Step::Move(side, port)),
        1 => (side.clone(), 1_000_u64..10_000_000).prop_map(|(side, ms)| Step::SetBack(side, ms)),
        1 => (side, 1_280_usize..1_600).prop_map(|(side, mtu)| Step::Narrow(side, mtu)),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(seeds()))]

    #[test]
    fn what_arrives_was_sent_and_arrives_once(seed in any::<u64>(), faults in faults(), steps in steps()) {
        let mut network = Network::pair(seed, faults);
        let mut sent = [BTreeSet::new(), BTreeSet::new()];
        let mut number = 0_u64;
        for step in steps {
            match step {
                Step::Send(side, count) => for _ in 0..count {
                    number += 1;
                    network.send(side, &number.to_be_bytes());
                    sent[side].insert(number.to_be_bytes().to_vec());
                },
                Step::Wait(ms) => network.run_ms(ms),
                Step::Restart(side) => network.restart(side),
                Step::Move(side, port) => {
                    let address = format!("198.51.100.{side}:{}", 4_000 + u16::from(port));
                    network.move_to(side, address.parse().unwrap());
                }
                Step::SetBack(side, ms) => network.set_wall_back_ms(side, ms),
                Step::Narrow(side, mtu) => network.set_mtu_from(side, mtu),
            }
        }
        for side in 0..2 {
            let received = network.received(side);
            let different: BTreeSet<_> = received.iter().cloned().collect();
            prop_assert_eq!(received.len(), different.len(), "a packet came twice");
            prop_assert!(different.is_subset(&sent[1 - side]), "a packet that nobody sent");
        }

        network.heal();
        for _ in 0..200 {
            network.send(0, b"from one");
            network.send(1, b"from the other");
            network.run_ms(1_000);
        }
        for side in 0..2 {
            network.take_received(side);
            network.send(1 - side, b"whole again");
        }
        network.run_ms(1_000);
        for side in 0..2 {
            prop_assert_eq!(network.received(side), &[b"whole again".to_vec()]);
        }
    }
}
