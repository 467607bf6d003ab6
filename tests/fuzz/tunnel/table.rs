//! Packets through the address table: what passes is between two addresses of one lease, has the
//! names that it should, and its checksums, computed anew, are as right as before. What does not
//! pass is left as it was.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use mercato_protocol::id::{ClusterId, ContractId};
use mercato_session::{
    AddressTable, Change, Checksum, Entry, Outbound, PeerIndex, Role, clamp_segment_size,
    nobody_there, too_big,
};

use super::input::Input;
use super::{noise, packets};

const NOW_MS: u64 = 5_000;
/// Both kinds of entry of one lease, in each version of IP.
const PODS: u8 = 3;
/// Those of this pod are over.
const ENDED: u8 = 2;

/// One packet on its way out, in, and back.
pub(crate) fn table(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.byte();
    let is_version_6 = choice & 1 != 0;
    let ends = [input.byte(), input.byte()];
    let [source, destination] = [(ends[0], Side::Home), (ends[1], Side::HomeOfAway)]
        .map(|(pod, side)| side.chosen(pod, is_version_6));
    let packet = if choice & 6 == 6 {
        error(&mut input, source, destination, is_version_6)
    } else {
        packets::packet(&mut input, source, destination)
    };
    out_and_in(&packet);
    told(&packet, usize::from(input.word()));
}

/// A side of the tunnel, by the names of whose cluster an address is called.
#[derive(Clone, Copy)]
enum Side {
    /// Home's pods, as home calls them.
    Home,
    /// The other cluster's, as home calls them.
    HomeOfAway,
    /// Home's, between the gateways.
    InnerOfHome,
    /// The other cluster's, between the gateways.
    InnerOfAway,
    /// The other cluster's, as it calls them itself.
    Away,
    /// Home's, as the other cluster calls them.
    AwayOfHome,
}

impl Side {
    fn address(self, pod: u8, is_version_6: bool) -> IpAddr {
        let net = self as u8 + 1;
        if is_version_6 {
            let mut octets = [0; 16];
            octets[..2].copy_from_slice(&[0xfd, net]);
            octets[15] = pod.wrapping_add(1);
            octets.into()
        } else {
            [10, net, 0, pod.wrapping_add(1)].into()
        }
    }

    /// One of this side's; or any other, now and then.
    fn chosen(self, choice: u8, is_version_6: bool) -> IpAddr {
        match choice >> 4 {
            0..=12 => self.address(choice % PODS, is_version_6),
            13 => Self::HomeOfAway.address(choice % PODS, is_version_6),
            14 => Self::Home.address(choice % PODS, is_version_6),
            _ => self.address(choice, is_version_6),
        }
    }
}

fn lease(pod: u8) -> ContractId {
    ContractId([pod + 1; 16])
}

fn peer() -> PeerIndex {
    static PEER: OnceLock<PeerIndex> = OnceLock::new();
    *PEER.get_or_init(|| noise::gateway(0).1)
}

/// A table in which `own` stands for `own_inner`, and `other` for `other_inner`.
fn table_of(role: Role, [own, own_inner, other, other_inner]: [Side; 4]) -> AddressTable {
    let cluster = ClusterId([1; 32]);
    let mut changes = vec![Change::Link { cluster, gateways: Vec::new(), active: peer() }];
    for pod in 0..PODS {
        let lease = lease(pod);
        let left = Duration::from_millis(if pod == ENDED { NOW_MS } else { u64::MAX });
        changes.push(Change::Lease { lease, cluster, role, left });
        for version_6 in [false, true] {
            let entry = |sides: [Side; 2]| {
                let [local, inner] = sides.map(|side| side.address(pod, version_6));
                Entry { lease, local, inner }
            };
            changes.push(Change::AddLocal(entry([own, own_inner])));
            changes.push(Change::AddRemote(entry([other, other_inner])));
        }
    }
    let mut table = AddressTable::new([1; 16]);
    assert_eq!(table.apply(0, &changes), []);
    table
}

/// An ICMP error about another packet, most often one that came the other way.
fn error(
    input: &mut Input<'_>,
    source: IpAddr,
    destination: IpAddr,
    is_version_6: bool,
) -> Vec<u8> {
    let choice = input.byte();
    let ends = [input.byte(), input.byte()];
    let sides = [Side::HomeOfAway, Side::Home];
    let nth = [0, 1].map(|nth| sides[nth].chosen(ends[nth], is_version_6 ^ (choice & 0xf0 == 0)));
    let quoted = packets::packet(input, nth[0], nth[1]);
    let (protocol, kinds) = if is_version_6 {
        (packets::ICMPV6, [1, 2, 3, 4])
    } else {
        (packets::ICMP, [3, 4, 11, 12])
    };
    let quoted = &quoted[..quoted.len().min(usize::from(input.byte()) + 28)];
    let mut message = [&[kinds[usize::from(choice & 3)], 0, 0, 0, 0, 0, 0, 9], quoted].concat();
    let mut whole = packets::laid_out(source, destination, protocol, &[], &message);
    if let Some(of) = packets::transport(&whole) {
        let checksum = !packets::transport_sum(&whole, &of);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        whole = packets::laid_out(source, destination, protocol, &[], &message);
    }
    whole
}

fn out_and_in(packet: &[u8]) {
    let home = table_of(
        Role::Consumer,
        [Side::Home, Side::InnerOfHome, Side::HomeOfAway, Side::InnerOfAway],
    );
    let lease_before = home.lease_of_outbound(packet);
    let mut translated = packet.to_vec();
    let route = home.outbound(NOW_MS, &mut translated, Checksum::Complete);
    let Ok(route) = route.map(|way| way.through().expect("no guest is here")) else {
        assert_eq!(translated, packet, "what does not pass is changed");
        return;
    };
    assert_eq!((Some(route.lease), route.peer), (lease_before, peer()));
    let pod = (0..PODS).find(|pod| lease(*pod) == route.lease).unwrap();
    assert_ne!(pod, ENDED, "a lease that is over");
    assert_ends(packet, [Side::Home, Side::HomeOfAway], pod);
    assert_ends(&translated, [Side::InnerOfHome, Side::InnerOfAway], pod);
    assert_as_right(packet, &translated);

    let back = table_of(
        Role::Consumer,
        [Side::InnerOfHome, Side::Home, Side::InnerOfAway, Side::HomeOfAway],
    );
    let mut again = translated.clone();
    assert_eq!(back.outbound(NOW_MS, &mut again, Checksum::Complete), Ok(Outbound::Through(route)));
    assert_eq!(without_checksums(&again), without_checksums(packet), "there and back");
    assert_as_right(packet, &again);

    let away = table_of(
        Role::Provider,
        [Side::Away, Side::InnerOfAway, Side::AwayOfHome, Side::InnerOfHome],
    );
    assert_eq!(away.lease_of_inbound(peer(), &translated), Some(route.lease));
    let mut arrived = translated.clone();
    assert_eq!(away.inbound(NOW_MS, peer(), &mut arrived, Checksum::Complete), Ok(route));
    assert_ends(&arrived, [Side::AwayOfHome, Side::Away], pod);
    assert_as_right(packet, &arrived);
    // To whoever sent it, it is a stranger's.
    assert!(home.inbound(NOW_MS, peer(), &mut translated, Checksum::Complete).is_err());
}

fn assert_ends(packet: &[u8], [source, destination]: [Side; 2], pod: u8) {
    let is_version_6 = packet[0] >> 4 == 6;
    let expected = [source, destination].map(|side| match side.address(pod, is_version_6) {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    });
    let at = if is_version_6 { [8..24, 24..40] } else { [12..16, 16..20] };
    assert_eq!(at.map(|at| packet[at].to_vec()), expected);
}

/// What was right in `before` is right in `after`.
fn assert_as_right(before: &[u8], after: &[u8]) {
    assert_eq!(before.len(), after.len());
    if before[0] >> 4 == 4 {
        let header = usize::from(before[0] & 15) * 4;
        let is_right = |bytes: &[u8]| packets::sum(&bytes[..header]) == 0xffff;
        assert!(!is_right(before) || is_right(after), "a header's checksum");
    }
    let Some(of) = packets::transport(before) else { return };
    let Some(at) = packets::checksum_at(&of) else { return };
    if of.0 == packets::UDP && before[at..at + 2] == [0, 0] {
        assert_eq!(after[at..at + 2], [0, 0], "a packet without a checksum has got one");
        return;
    }
    // ICMP over IPv6, or version 6's over IPv4, is nobody's.
    let is_known = matches!(of.0, packets::TCP | packets::UDP)
        || of.0 == if before[0] >> 4 == 6 { packets::ICMPV6 } else { packets::ICMP };
    let is_right = |bytes: &[u8]| packets::transport_sum(bytes, &of) == 0xffff;
    assert!(
        !is_known || !is_right(before) || is_right(after),
        "a transport checksum: {before:02x?}"
    );
}

/// A packet up to its checksums, of which two numbers may mean the same; and without what an ICMP
/// error quotes, which has such numbers of its own.
fn without_checksums(packet: &[u8]) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    let is_version_6 = packet[0] >> 4 == 6;
    if !is_version_6 {
        bytes[10..12].fill(0);
    }
    let Some(of) = packets::transport(packet) else {
        bytes.truncate(20);
        return bytes;
    };
    if let Some(at) = packets::checksum_at(&of) {
        bytes[at..at + 2].fill(0);
    }
    if matches!(of.0, packets::ICMP | packets::ICMPV6) {
        bytes.truncate(of.1.start + 8);
    }
    bytes
}

/// What is told to a sender, and to TCP.
fn told(packet: &[u8], most: usize) {
    if let Some(told) = too_big(packet, most) {
        let is_version_6 = packet[0] >> 4 == 6;
        assert!(told.len() <= if is_version_6 { 1_280 } else { 576 });
        let of = packets::transport(&told).unwrap();
        assert_eq!(packets::transport_sum(&told, &of), 0xffff);
        assert_eq!(is_version_6, told[0] >> 4 == 6);
        assert_eq!(too_big(&told, most), None, "an error about an error");
    }
    if let Some(answer) = nobody_there(packet) {
        let is_version_6 = packet[0] >> 4 == 6;
        assert!(answer.len() <= if is_version_6 { 1_280 } else { 576 });
        let of = packets::transport(&answer).unwrap();
        assert_eq!(packets::transport_sum(&answer, &of), 0xffff);
        assert_eq!(is_version_6, answer[0] >> 4 == 6);
        assert_eq!(nobody_there(&answer), None, "an answer to an answer");
    }
    let mut clamped = packet.to_vec();
    clamp_segment_size(&mut clamped, most, Checksum::Complete);
    assert_eq!(clamped.len(), packet.len());
    let changed = clamped.iter().zip(packet).filter(|(one, other)| one != other).count();
    assert!(changed <= 4, "more than a size and a checksum: {packet:02x?}");
    if changed > 0 {
        assert_as_right(packet, &clamped);
    }
}
