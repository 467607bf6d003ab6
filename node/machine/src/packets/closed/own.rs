//! A pod knows itself by the address that everybody knows it by; on the wire it has that of its node's pod
//! network. Both are written for each other in what it sends and gets, ARP included.
//!
//! It may call a Service behind which it is itself. What comes back so is from its own address, which no
//! kernel takes from outside: there it is from another one, as a node's masquerade gives one to any
//! pod.

use std::net::Ipv4Addr;

use super::way::Way;
use crate::closed::Closed;
use crate::packets::expression::Rewritten;
use crate::packets::frames::FrameTable;
use crate::packets::table::Side;

/// From whom a pod is called that calls itself by a Service: nobody else can have it, since it means
/// something on one machine alone (RFC 7335).
const BY_SERVICE: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 6);
const ITSELF_HERE: &str = "itself_here";
const ITSELF_CALLED: &str = "itself_called";

const WAYS: [Way; 4] = [
    Way {
        chain: "from_own",
        side: Side::Out,
        map: FrameTable::OWN_HERE,
        address: Rewritten::Source,
        in_error: Rewritten::ErrorDestination,
        in_arp: Some(Rewritten::ArpSender),
        whose: "itself",
    },
    Way {
        chain: "to_own",
        side: Side::In,
        map: FrameTable::OWN_CALLED,
        address: Rewritten::Destination,
        in_error: Rewritten::ErrorSource,
        in_arp: Some(Rewritten::ArpTarget),
        whose: "itself",
    },
    Way {
        chain: "to_itself",
        side: Side::Out,
        map: ITSELF_HERE,
        address: Rewritten::Destination,
        in_error: Rewritten::ErrorSource,
        in_arp: None,
        whose: "itself by a Service",
    },
    Way {
        chain: "from_itself",
        side: Side::In,
        map: ITSELF_CALLED,
        address: Rewritten::Source,
        in_error: Rewritten::ErrorDestination,
        in_arp: None,
        whose: "itself by a Service",
    },
];

/// Adds to a table in a pod's own namespace, at its device, what does so.
pub(super) fn translate(table: &mut FrameTable, wanted: &Closed, device: &str) {
    let Some((called, here)) = wanted.both() else { return };
    table.maps.extend([
        (FrameTable::OWN_HERE.to_owned(), [(called, here)].into()),
        (FrameTable::OWN_CALLED.to_owned(), [(here, called)].into()),
        (ITSELF_HERE.to_owned(), [(BY_SERVICE, called)].into()),
        (ITSELF_CALLED.to_owned(), [(called, BY_SERVICE)].into()),
    ]);
    for way in WAYS {
        way.add_to(table, device);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::overlay::Mac;
    use crate::packets::{Interface, closed, closed_at_node};

    fn net(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn it_is_written_where_there_are_two_and_each_is_known() {
        let called = Some("10.201.3.7".parse().unwrap());
        let wanted = |own: &[&str]| Closed {
            own: own.iter().map(|own| net(own)).collect(),
            called,
            ..Closed::default()
        };
        let interface = Interface { name: "eth0".to_owned(), mac: Mac([2; 6]), of_link: [].into() };
        let chains = |wanted: &Closed| {
            let table = closed(wanted, &interface);
            let is_own = |name: &&String| WAYS.iter().any(|way| name.starts_with(way.chain));
            (table.chains.keys().filter(is_own).count(), table.maps)
        };
        let maps = [
            ("own_called", "10.42.0.5", "10.201.3.7"),
            ("own_here", "10.201.3.7", "10.42.0.5"),
            ("itself_called", "10.201.3.7", "192.0.0.6"),
            ("itself_here", "192.0.0.6", "10.201.3.7"),
        ];
        let maps = maps.map(|(name, of, is)| {
            (name.to_owned(), [(of.parse().unwrap(), is.parse().unwrap())].into())
        });
        assert_eq!(chains(&wanted(&["10.42.0.5", "fd42::5"])), (8, maps.into()));
        for one in [&["10.201.3.7"][..], &["10.42.0.5", "10.42.0.6"], &["fd42::5"], &[]] {
            assert_eq!(chains(&wanted(one)), (0, [].into()), "{one:?}");
        }
        // What is on the wire is what the node's end knows.
        let at_node = |wanted| closed_at_node(wanted, &interface, "one".to_owned(), "pod0");
        let with = wanted(&["10.42.0.5"]);
        assert_eq!(at_node(&with), at_node(&Closed { called: None, ..with.clone() }));
    }
}
