//! What a pod may try to reach whom it may not, by name: each sends one thing, and waits for nothing.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Result;
use socket2::{Domain, Socket, Type};

use crate::frames::{
    ANY, ARP, IPV4, IPV6, VLAN, about, arp, error, four, frame, icmp, own, part_of_four, send,
    send_raw, send_with_header, six, tcp, udp,
};
use crate::namespace::Namespace;
use crate::packets::{PORT, socket};
use crate::pods::{
    INTERNET, INTERNET_V6, LATER, METADATA, NODE, NODE_V6, OTHER, OTHER_V6, POD, POD_V6, REACHED,
    REACHED_V6, SERVICE,
};

const STRANGERS_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const UNSPECIFIED: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const GRE: u8 = 47;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const SYN: u8 = 2;
const SYN_AND_FIN: u8 = 3;
const MORE: u16 = 0x2000;

/// Sends something from a pod.
type Try = Box<dyn Fn(&Namespace) -> Result<()>>;
pub(crate) type Tries = BTreeMap<String, Try>;

/// What is tried by sockets as any program has them.
pub(crate) fn plain_tries() -> Tries {
    let mut tries = Tries::new();
    let four = [OTHER, INTERNET, METADATA, SERVICE, LATER].into_iter().chain(NODE);
    let six = [OTHER_V6, INTERNET_V6].into_iter().chain(NODE_V6);
    let all = four.map(IpAddr::from).chain(six.map(IpAddr::from));
    for to in all {
        let own: IpAddr = if to.is_ipv4() { POD.into() } else { POD_V6.into() };
        let datagram = move |pod: &Namespace| {
            let _ = socket(pod, own, 0)?.send_to(b"?", (to, PORT));
            Ok(())
        };
        tries.insert(format!("a datagram to {to}"), Box::new(datagram));
        tries.insert(format!("a connection to {to}"), Box::new(move |pod| call(pod, to)));
        let (protocol, kind) = if to.is_ipv4() { (ICMP, 8) } else { (ICMPV6, 128) };
        let echo = move |pod: &Namespace| send_raw(pod, to, protocol, icmp(kind));
        tries.insert(format!("an echo to {to}"), Box::new(echo));
    }
    tries
}

/// Begins a connection, and waits for nothing.
fn call(pod: &Namespace, to: IpAddr) -> Result<()> {
    let socket = pod.within(move || {
        Socket::new(Domain::for_address((to, PORT).into()), Type::STREAM, None)
    })??;
    socket.set_nonblocking(true)?;
    let _ = socket.connect(&SocketAddr::from((to, PORT)).into());
    Ok(())
}

/// What is tried by whoever has raw sockets, in IPv4.
pub(crate) fn raw_tries() -> Tries {
    let mut tries = Tries::new();
    for protocol in [SCTP, GRE, 2, 4, 50, 254] {
        let raw = move |pod: &Namespace| send_raw(pod, REACHED.into(), protocol, vec![0; 16]);
        tries.insert(format!("protocol {protocol}"), Box::new(raw));
    }
    let forged = four(OTHER, REACHED, UDP, &udp());
    let with_header = forged.clone();
    tries.insert(
        "forged, with a header".to_owned(),
        Box::new(move |pod| send_with_header(pod, REACHED, with_header.clone())),
    );
    let mut by_frame = |name: &str, kind: u16, frame: Vec<u8>| {
        let send = move |pod: &Namespace| send(pod, kind, frame.clone());
        tries.insert(name.to_owned(), Box::new(send));
    };
    by_frame("forged, as a frame", ANY, own(IPV4, &forged));
    let to_reached = four(POD, REACHED, UDP, &udp());
    by_frame("from another device", ANY, frame(STRANGERS_MAC, IPV4, &to_reached));
    let to_internet = four(POD, INTERNET, UDP, &udp());
    // What the kernel is told, and what the frame says.
    by_frame("said to be ARP", ARP, own(IPV4, &to_internet));
    by_frame("said to be IPv6", IPV6, own(IPV4, &to_internet));
    by_frame("said to be IPv4", IPV4, own(IPV6, &six(POD_V6, INTERNET_V6, UDP, &udp())));
    by_frame("said to be IPv4, of another kind", IPV4, own(0x88b5, &to_reached));
    by_frame("said to be IPv4, of a VLAN", IPV4, own(VLAN, &to_reached));
    // Where the kernel then looks for a header is one that might pass.
    let shifted = [&[0x45, 0, 0, 60][..], &to_reached].concat();
    by_frame("said to be of a VLAN", VLAN, own(IPV4, &shifted));
    by_frame("of a VLAN", ANY, own(VLAN, &[&[0, 5, 8, 0][..], &to_reached].concat()));
    by_frame("of no kind that is known", ANY, own(0x88b5, &to_reached));
    by_frame("with a length for a kind", ANY, own(60, &[0xaa; 60]));
    by_frame("cut off", ANY, own(IPV4, &to_reached[..12]));
    let mut long_header = to_reached.clone();
    long_header[0] = 0x4f;
    by_frame("with a header that is too long", ANY, own(IPV4, &long_header));
    by_frame("ARP of somebody else", ANY, own(ARP, &arp(crate::pods::MAC, OTHER)));
    by_frame("ARP with another device", ANY, own(ARP, &arp(STRANGERS_MAC, POD)));
    by_frame("to everybody", ANY, own(IPV4, &four(POD, Ipv4Addr::BROADCAST, UDP, &udp())));
    let group = Ipv4Addr::new(224, 0, 0, 251);
    by_frame("to a group", ANY, own(IPV4, &four(POD, group, UDP, &udp())));
    // To the node, what begins something or looks as if it did not.
    let [node, ..] = NODE;
    by_frame("SYN and FIN", ANY, own(IPV4, &four(POD, node, TCP, &tcp(SYN_AND_FIN))));
    let begins = tcp(SYN);
    let (first, rest) = begins.split_at(8);
    by_frame("a first part", ANY, own(IPV4, &part_of_four(POD, node, TCP, MORE, first)));
    by_frame(
        "a first part that is whole",
        ANY,
        own(IPV4, &part_of_four(POD, node, TCP, MORE, &tcp(16))),
    );
    by_frame("a second part", ANY, own(IPV4, &part_of_four(POD, node, TCP, 1, rest)));
    by_frame("a redirect", ANY, own(IPV4, &four(POD, node, ICMP, &icmp(5))));
    by_frame("a question for the time", ANY, own(IPV4, &four(POD, node, ICMP, &icmp(13))));
    let to_other = four(NODE[1], OTHER, UDP, &udp());
    for kind in [3, 11, 12] {
        let error = four(POD, node, ICMP, &error(kind, &to_other));
        by_frame(&format!("error {kind} about somebody else"), ANY, own(IPV4, &error));
    }
    by_frame("an error about nothing", ANY, own(IPV4, &four(POD, node, ICMP, &icmp(3))));
    tries
}

/// The same, in IPv6.
pub(crate) fn raw_tries_of_six() -> Tries {
    let mut tries = Tries::new();
    let mut by_frame = |name: &str, packet: Vec<u8>| {
        let frame = own(IPV6, &packet);
        let send = move |pod: &Namespace| send(pod, ANY, frame.clone());
        tries.insert(format!("IPv6: {name}"), Box::new(send));
    };
    for protocol in [SCTP, GRE, 59] {
        by_frame(&format!("protocol {protocol}"), six(POD_V6, REACHED_V6, protocol, &[0; 16]));
    }
    by_frame("forged", six(OTHER_V6, REACHED_V6, UDP, &udp()));
    let link: Ipv6Addr = "fe80::ff:fe00:5".parse().expect("an address");
    by_frame("of the link", six(link, REACHED_V6, UDP, &udp()));
    let [node, ..] = NODE_V6;
    by_frame("SYN and FIN", six(POD_V6, node, TCP, &tcp(SYN_AND_FIN)));
    // Behind a header of options for whoever it is to, and as a part of a larger one.
    let options = |payload: &[u8]| [&[TCP, 0, 1, 4, 0, 0, 0, 0][..], payload].concat();
    by_frame("SYN behind options", six(POD_V6, node, 60, &options(&tcp(SYN))));
    by_frame("behind options", six(POD_V6, node, 60, &options(&tcp(16))));
    let part = |offset: u16, payload: &[u8]| {
        [&[TCP, 0][..], &offset.to_be_bytes(), &[0, 0, 0, 7], payload].concat()
    };
    by_frame("a first part", six(POD_V6, node, 44, &part(1, &tcp(16))));
    by_frame("a second part", six(POD_V6, node, 44, &part(8, &tcp(16))));
    by_frame(
        "a second part of SCTP",
        six(POD_V6, REACHED_V6, 44, &[&[SCTP, 0, 0, 8, 0, 0, 0, 7][..], &[0; 16]].concat()),
    );
    let to_other = six(node, OTHER_V6, UDP, &udp());
    for kind in 1..=4 {
        let error = six(POD_V6, node, ICMPV6, &error(kind, &to_other));
        by_frame(&format!("error {kind} about somebody else"), error);
    }
    let everybody: Ipv6Addr = "ff02::1".parse().expect("an address");
    for kind in [133, 134, 137] {
        for to in [everybody, node, REACHED_V6] {
            by_frame(
                &format!("ICMPv6 {kind} to {to}"),
                six(POD_V6, to, ICMPV6, &about(kind, OTHER_V6)),
            );
        }
    }
    by_frame("says that it is another", six(POD_V6, everybody, ICMPV6, &about(136, OTHER_V6)));
    by_frame("says so as another", six(OTHER_V6, everybody, ICMPV6, &about(136, OTHER_V6)));
    by_frame("asks as another", six(OTHER_V6, everybody, ICMPV6, &about(135, node)));
    by_frame("asks for another's", six(UNSPECIFIED, everybody, ICMPV6, &about(135, OTHER_V6)));
    by_frame("asks far away", six(POD_V6, INTERNET_V6, ICMPV6, &about(135, INTERNET_V6)));
    by_frame("asks whom it may reach", six(POD_V6, REACHED_V6, ICMPV6, &about(135, REACHED_V6)));
    by_frame("says it far away", six(POD_V6, INTERNET_V6, ICMPV6, &about(136, POD_V6)));
    by_frame("asks a name of the link", six(POD_V6, everybody, UDP, &udp()));
    tries
}
