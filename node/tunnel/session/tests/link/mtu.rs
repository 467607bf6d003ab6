//! How large packets get through: over links of several MTUs, over paths that are narrower, and
//! while they change.

use mercato_session::{
    DropReason, OffloadHeader, Path, SegmentKind, Segments, limits, take_partial_mark,
};

use crate::network::{Faults, Network};

const PLAIN: OffloadHeader = OffloadHeader { checksum: None, segments: None, headers: 0 };

/// A UDP packet of so many bytes, without a checksum.
fn version_4(bytes: usize, may_be_fragmented: bool, fill: u8) -> Vec<u8> {
    let mut packet = vec![fill; bytes];
    packet[..2].copy_from_slice(&[0x45, 0]);
    packet[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    packet[4..6].copy_from_slice(&[0, 0]);
    packet[6..8].copy_from_slice(&[if may_be_fragmented { 0 } else { 0x40 }, 0]);
    packet[8..20].copy_from_slice(&[64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet[26..28].fill(0);
    packet
}

fn version_6(bytes: usize) -> Vec<u8> {
    let mut packet = vec![9; bytes];
    packet[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    packet[4..6].copy_from_slice(&((bytes - 40) as u16).to_be_bytes());
    packet[6] = 17;
    packet
}

/// TCP of so many bytes as a device gives it, in segments of 1,400.
fn large_tcp(payload: usize, sequence: u32) -> (OffloadHeader, Vec<u8>) {
    let mut packet = version_4(40 + payload, false, (sequence % 251) as u8);
    packet[9] = 6;
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet[32] = 5 << 4;
    packet[33] = 0x10;
    let segments = Some(Segments { kind: SegmentKind::TcpV4, size: 1_400 });
    (OffloadHeader { checksum: Some((20, 16)), segments, headers: 40 }, packet)
}

fn connected(link_mtu: usize, path_mtu: usize) -> Network {
    let mut network = Network::pair_on_links(1, Faults::none(), link_mtu);
    network.set_mtu(path_mtu);
    network.exchange([b"hello", b"welcome"]);
    network
}

/// Sends a packet, and says whether it came as it was.
fn passes(network: &mut Network, packet: &[u8]) -> Result<bool, DropReason> {
    network.take_received(1);
    network.send_cut(0, &PLAIN, packet)?;
    network.run_ms(100);
    assert!(network.received(1).len() <= 1);
    Ok(network.received(1).first().is_some_and(|received| received == packet))
}

/// Sends 10 MB of TCP, and counts what comes.
fn carry_tcp(network: &mut Network) -> usize {
    network.take_received(1);
    let (mut sent, payload) = (0, 60_000);
    while sent < 10_000_000 {
        let (header, packet) = large_tcp(payload, sent as u32);
        network.send_cut(0, &header, &packet).unwrap();
        network.run_ms(1);
        sent += payload;
    }
    network.run_ms(100);
    let mut sequences = std::collections::BTreeMap::new();
    for mut packet in network.received(1).to_vec() {
        assert!(take_partial_mark(&mut packet));
        let sequence = u32::from_be_bytes(*packet[24..].first_chunk().unwrap());
        assert!(packet.len() > 40 && sequences.insert(sequence, packet.len() - 40).is_none());
    }
    let end = sequences
        .iter()
        .try_fold(0, |at, (sequence, bytes)| (*sequence == at).then_some(at + *bytes as u32));
    end.expect("a hole among what came") as usize
}

fn settled(outer_bytes: usize) -> Path {
    Path { outer_bytes, is_settled: true }
}

#[test]
fn everything_passes_over_links_of_all_sizes() {
    for (link, path, found) in [
        (1_280, 1_280, 1_280),
        (1_400, 1_400, 1_400),
        (1_500, 1_500, 1_500),
        (9_000, 9_000, 9_000),
        (9_000, 1_500, 1_500),
        (1_500, 1_280, 1_280),
        (1_500, 1_410, 1_400),
    ] {
        let mut network = connected(link, path);
        for _ in 0..2 {
            // At once, and when the search is over.
            assert_eq!(passes(&mut network, &version_6(1_280)), Ok(true), "{link}, {path}");
            for packet in [
                version_4(1_428, true, 7),
                version_4(limits::PASSING_BYTES, false, 8),
                version_6(limits::PASSING_BYTES),
            ] {
                assert_eq!(passes(&mut network, &packet), Ok(true), "{link}, {path}");
            }
            let tcp = carry_tcp(&mut network);
            assert!(tcp >= 10_000_000, "{tcp} bytes of TCP over {path}");
            network.chatter(30);
        }
        for side in 0..2 {
            assert_eq!(network.gateway(side).path(), settled(found), "{link}, {path}");
        }
    }
}

#[test]
fn nobody_is_told_of_a_limit_before_it_is_certain() {
    let mut network = connected(1_500, 1_280);
    let large = version_4(1_400, false, 7);
    assert_eq!(passes(&mut network, &large), Ok(true), "over two datagrams");
    assert!(network.gateway(0).told().is_empty());
    network.chatter(30);
    let most = limits::LEAST_INNER_BYTES;
    assert_eq!(passes(&mut network, &large), Ok(true), "over two datagrams, and it is told");
    assert_eq!(network.gateway(0).told(), [most]);
    assert_eq!(passes(&mut network, &version_4(most, false, 7)), Ok(true));
    assert_eq!(passes(&mut network, &version_4(1_400, true, 7)), Ok(true), "it may be fragmented");
    assert_eq!(network.gateway(0).told(), [most], "of neither anybody is told");
    assert_eq!(network.gateway(0).room().settled(), Some(1_280 - 28 - limits::SEALED_BYTES));
}

#[test]
fn what_no_pod_sends_is_refused_unless_it_may_be_fragmented() {
    let mut network = connected(1_500, 1_500);
    network.chatter(30);
    let larger = limits::PASSING_BYTES + 1;
    assert_eq!(passes(&mut network, &version_4(larger, false, 7)), Err(DropReason::TooLarge));
    assert_eq!(network.gateway(0).told(), [1_440]);
    assert_eq!(passes(&mut network, &version_4(larger - 1, false, 7)), Ok(true));
    assert_eq!(network.gateway(0).told(), [1_440, 1_440], "that one is told as well");
    assert_eq!(passes(&mut network, &version_4(larger, true, 7)), Ok(true));
    assert_eq!(network.gateway(0).told().len(), 2);
}

#[test]
fn a_session_does_not_lose_the_first_large_datagram() {
    // It waits for the session, of whose path nothing is known yet.
    let mut network = Network::pair_on_links(1, Faults::none(), 1_500);
    network.set_mtu(1_280);
    let first = version_4(limits::PASSING_BYTES, false, 7);
    network.send_cut(0, &PLAIN, &first).unwrap();
    network.run_ms(1_000);
    assert_eq!(network.received(1), [first]);
}

#[test]
fn each_direction_has_its_own_limit() {
    let mut network = connected(1_500, 1_500);
    network.set_mtu_from(1, 1_400);
    network.chatter(60);
    assert_eq!(network.gateway(0).path(), settled(1_500));
    assert_eq!(network.gateway(1).path(), settled(1_400));
}

#[test]
fn a_path_that_changes_is_followed_though_probes_are_lost() {
    for seed in 0..20 {
        let faults = Faults { lost_percent: 15, ..Faults::none() };
        let mut network = Network::pair_on_links(seed, faults, 9_000);
        network.chatter(60);
        for (mtu, seconds) in [(1_500, 60), (1_280, 60), (1_400, 700), (9_000, 700), (1_492, 60)] {
            network.set_mtu(mtu);
            network.chatter(seconds);
            // A search that three lost probes have misled is repeated.
            for _ in 0..3 {
                if network.gateway(0).path() != settled(mtu) {
                    network.chatter(700);
                }
            }
            assert_eq!(network.gateway(0).path(), settled(mtu), "seed {seed}");
        }
    }
}

#[test]
fn a_black_hole_swallows_large_packets_for_ten_seconds_at_most() {
    let mut network = connected(1_500, 1_500);
    network.chatter(20);
    let large = version_4(1_428, true, 7);
    assert_eq!(passes(&mut network, &large), Ok(true));
    network.set_mtu(1_300);
    network.chatter(10);
    assert_eq!(passes(&mut network, &large), Ok(true));
}

#[test]
fn one_lost_half_costs_one_packet() {
    let faults = Faults { lost_percent: 20, doubled_percent: 20, delay_ms: 30, ..Faults::none() };
    let mut network = connected(1_280, 1_280);
    network.set_faults(faults);
    network.take_received(1);
    let packets: Vec<_> =
        (0..200).map(|number| version_4(1_400, number % 2 == 0, number)).collect();
    for packet in &packets {
        network.send_cut(0, &PLAIN, packet).unwrap();
        network.run_ms(20);
    }
    network.run_ms(100);
    let received = network.received(1);
    assert!(received.iter().all(|packet| packets.contains(packet)), "a packet that nobody sent");
    let share = received.len() * 100 / packets.len();
    assert!((50..80).contains(&share), "{share} % of packets, of which 64 are to be expected");
}
