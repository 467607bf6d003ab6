//! Whatever happens: once the links are healed, every node holds the latest of every
//! publisher, whole. The model is what each publisher said last.

use mercato_gossip::{Input, News, limits};
use mercato_protocol::gossip::Mark;
use proptest::prelude::*;

use crate::network::{Network, ad, end, keys};

#[derive(Clone, Debug)]
enum Step {
    Link(usize, usize),
    Cut(usize, usize),
    Publish { node: usize, new_body: bool },
    Withdraw(usize),
    Run(u64),
}

fn step(size: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..size, 0..size).prop_map(|(a, b)| Step::Link(a, b)),
        1 => (0..size, 0..size).prop_map(|(a, b)| Step::Cut(a, b)),
        3 => (0..size, any::<bool>()).prop_map(|(node, new_body)| Step::Publish { node, new_body }),
        1 => (0..size).prop_map(Step::Withdraw),
        3 => (1_u64..40_000).prop_map(Step::Run),
    ]
}

/// Does the steps on a network that loses and doubles, then heals it; gives back what
/// each publisher said last.
fn play(network: &mut Network, steps: &[Step]) -> Vec<Mark> {
    let size = network.nodes.len();
    let mut words: Vec<(u64, u8, Option<News>)> = vec![(0, 0, None); size];
    let mut said_ms = vec![0; size];
    for step in steps {
        match step {
            Step::Link(a, b) => network.link(*a, *b),
            Step::Cut(a, b) => network.cut(*a, *b),
            Step::Publish { node, new_body } => {
                // An honest publisher keeps the distance.
                let wait_ms = said_ms[*node] + limits::LEASE_DISTANCE_MS;
                network.run(wait_ms.saturating_sub(network.at_ms));
                said_ms[*node] = network.at_ms;
                let (seq, body, last) = &mut words[*node];
                *seq += 1;
                *body += u8::from(*new_body);
                let news = ad(*node, *seq, &[u8::try_from(*node).unwrap(), *body], network.at_ms);
                *last = Some(news.clone());
                network.feed(*node, Input::Publish(news));
            }
            Step::Withdraw(node) => {
                let (seq, _, last) = &mut words[*node];
                *seq += 1;
                let news = end(*node, *seq, network.at_ms);
                *last = Some(news.clone());
                network.feed(*node, Input::Publish(news));
            }
            Step::Run(for_ms) => network.run(*for_ms),
        }
    }
    (network.lost, network.doubled) = (0, 0);
    for node in 1..size {
        network.link(node - 1, node);
    }
    // Long enough that every pair is compared: whom with is drawn anew each time.
    network.run(12 * limits::RECONCILE_MS + limits::BODY_DISTANCE_MS);
    let mut marks: Vec<Mark> =
        words.iter().filter_map(|(_, _, last)| Some(*last.as_ref()?.mark())).collect();
    marks.sort();
    marks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn all_converge(
        seed in any::<u64>(),
        lost in 0_u32..40,
        doubled in 0_u32..20,
        steps in prop::collection::vec(step(5), 1..40),
    ) {
        let mut network = Network::new(5, seed);
        (network.lost, network.doubled) = (lost, doubled);
        let latest = play(&mut network, &steps);
        // Else some headers are over, and some nodes drop them before others.
        prop_assume!(network.at_ms < 900_000);
        for node in 0..5 {
            let held = network.marks(node);
            prop_assert_eq!(&held, &latest, "node {}", node);
            for mark in &held {
                let own = keys(node).public() == mark.publisher;
                let learned = network.learned[node].get(&mark.publisher).map(News::mark);
                prop_assert!(own || learned == Some(mark));
            }
        }
    }

    #[test]
    fn equal_seeds_give_equal_runs(seed in any::<u64>(), steps in prop::collection::vec(step(4), 1..20)) {
        let run = || {
            let mut network = Network::new(4, seed);
            (network.lost, network.doubled) = (20, 10);
            play(&mut network, &steps);
            network.trace
        };
        prop_assert_eq!(run(), run());
    }
}
