//! The way to others: where we listen, whether UDP gets through, whose clock differs.

use mercato_broker::Unknown;
use mercato_discovery::{Address, Transport};

use super::{Finding, clock};
use crate::admin::Peer;

/// Where others can connect; `usual` is the port that they would try.
pub(crate) fn listening(addresses: &[Address], usual: Option<u16>) -> Vec<Finding> {
    const CHECK: &str = "ports";
    let ports = |transport| {
        let of = addresses.iter().filter(|address| address.transport == transport);
        let mut ports: Vec<u16> = of.map(|address| address.port).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    };
    let one = |(name, ports): (&str, Vec<u16>)| {
        let all: Vec<String> = ports.iter().map(ToString::to_string).collect();
        // Whether anything comes through, other lines say.
        let on = format!("this daemon listens for peers by {name}, at port {}", all.join(", "));
        match usual {
            _ if ports.is_empty() => {
                let what = format!("nobody can connect by {name}: no port could be taken");
                Finding::fail(CHECK, what).todo("see why in the log; set `listen`")
            }
            Some(usual) if !ports.contains(&usual) => {
                Finding::warn(CHECK, format!("{on}, since {usual} was taken"))
                    .todo(format!("end what holds {usual}, or set `listen`; firewalls must know"))
            }
            Some(_) | None => Finding::ok(CHECK, on),
        }
    };
    [("UDP", ports(Transport::Quic)), ("TCP", ports(Transport::Tcp))].map(one).into()
}

/// Whether UDP gets through to the peers that are connected.
pub(crate) fn path(peers: &[Peer]) -> Finding {
    const CHECK: &str = "udp path";
    let connected: Vec<(&Peer, &String)> =
        peers.iter().filter_map(|peer| Some((peer, peer.connected.as_ref()?))).collect();
    let (by_udp, by_tcp): (Vec<_>, Vec<_>) =
        connected.iter().partition(|(_, address)| address.contains("/udp/"));
    let names: Vec<String> = by_tcp.iter().map(|(peer, _)| called(peer)).collect();
    match (connected.len(), by_udp.len()) {
        (0, _) if peers.is_empty() => {
            Finding::ok(CHECK, "nobody is known, so it is not known either")
        }
        (0, _) => Finding::warn(CHECK, format!("none of {} known is connected", peers.len()))
            .todo("try one: mercato peer ping HOST:PORT"),
        (all, udp) if all == udp => {
            Finding::ok(CHECK, format!("all {all} that are connected are so by UDP"))
        }
        (_, _) => {
            let what = format!("connected by TCP only, which is slower: {}", names.join(", "));
            Finding::warn(CHECK, what).todo("let UDP through, both ways, where TCP gets through")
        }
    }
}

/// Countries that rules of what is shared name, and that nobody's certificate does.
pub(crate) fn rules(countries: &[String]) -> Option<Finding> {
    let all = countries.join(", ");
    let what =
        format!("rules by jurisdiction cover nobody of {all}: no certificate says so, nor do you");
    let one = countries.first()?;
    let registrar = format!(
        "a registrar says so of its members: mercato federation token --attribute jurisdiction={one}"
    );
    let owner = format!("or say so of one: mercato peer trust NAME --jurisdiction {one}");
    Some(Finding::warn("rules", what).todo(registrar).todo(owner))
}

/// Rules of what is shared that decide nothing, as each is said.
pub(crate) fn unreached(rules: &[String]) -> Option<Finding> {
    let what = format!("an earlier rule decides what these would: {}", rules.join("; "));
    let todo = "say the narrower one first: mercato share set --rule, or the MarketPolicy";
    (!rules.is_empty()).then(|| Finding::warn("rules", what).todo(todo))
}

/// Names in what is shared, and in what may be bought, that match nothing known here.
pub(crate) fn unknown(names: &[Unknown]) -> Option<Finding> {
    let all: Vec<String> = names.iter().map(ToString::to_string).collect();
    let finding = Finding::warn("names", all.join("; "));
    let slip =
        "mend a slip where it was written: mercato share, or kubectl edit marketpolicy default";
    let later = "nothing is to be done where it is to be known later";
    (!names.is_empty()).then(|| finding.todo(slip).todo(later))
}

/// What each peer's clock said when it connected.
pub(crate) fn clocks(peers: &[Peer]) -> Vec<Finding> {
    let told = peers.iter().filter(|peer| peer.connected.is_some());
    told.filter_map(|peer| {
        Some(clock("clock", &format!("that of {}", called(peer)), peer.ahead_ms?))
    })
    .collect()
}

fn called(peer: &Peer) -> String {
    let short = || peer.cluster.map_or_else(|| "somebody".to_owned(), |cluster| cluster.short());
    peer.name.clone().unwrap_or_else(short)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use mercato_broker::{Noun, Standing};

    fn peer(connected: Option<&str>) -> Peer {
        Peer {
            cluster: None,
            key: None,
            name: Some("turin".to_owned()),
            standing: Standing::Trusted,
            jurisdiction: None,
            found: Vec::new(),
            addresses: Vec::new(),
            connected: connected.map(str::to_owned),
            rtt_us: None,
            ahead_ms: Some(40_000),
            tunnel: None,
        }
    }

    #[test]
    fn rules_that_cover_nobody_are_named_once() {
        assert_eq!((rules(&[]), unreached(&[])), (None, None));
        let found = unreached(&["ask: org=polito".to_owned()]).unwrap();
        assert!(found.what.ends_with("would: ask: org=polito"), "{found:?}");
        let found = rules(&["FR".to_owned(), "IT".to_owned()]).unwrap();
        assert_eq!(found.verdict, Verdict::Warn);
        assert!(found.what.contains("FR, IT"), "{found:?}");
        assert!(found.todo[0].ends_with("--attribute jurisdiction=FR"), "{found:?}");
    }

    #[test]
    fn names_that_match_nothing_are_a_warning() {
        assert_eq!(unknown(&[]), None);
        let slip = |kind, name: &str, nearest: Option<&str>| Unknown {
            kind,
            name: name.to_owned(),
            nearest: nearest.map(str::to_owned),
        };
        let names =
            [slip(Noun::Federation, "itala", Some("italia")), slip(Noun::Country, "ITA", None)];
        let found = unknown(&names).unwrap();
        assert_eq!(found.verdict, Verdict::Warn);
        assert!(found.what.contains("(did you mean italia?); ITA is no"), "{found:?}");
    }

    #[test]
    fn a_port_that_moved_is_said() {
        let at = |port: u16| {
            [format!("/ip4/0.0.0.0/udp/{port}/quic-v1"), format!("/ip4/0.0.0.0/tcp/{port}")]
                .map(|text| text.parse().unwrap())
        };
        let verdicts = |found: Vec<Finding>| found.iter().map(|f| f.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(listening(&at(7474), Some(7474))), [Verdict::Ok; 2]);
        assert_eq!(verdicts(listening(&at(1), Some(7474))), [Verdict::Warn; 2]);
        assert_eq!(verdicts(listening(&at(1), None)), [Verdict::Ok; 2]);
        assert_eq!(verdicts(listening(&at(1)[..1], None)), [Verdict::Ok, Verdict::Fail]);
    }

    #[test]
    fn udp_is_known_by_who_is_connected_by_it() {
        let (udp, tcp) = ("/ip4/192.0.2.1/udp/7474/quic-v1", "/ip4/192.0.2.1/tcp/7474");
        assert_eq!(path(&[]).verdict, Verdict::Ok);
        assert_eq!(path(&[peer(None)]).verdict, Verdict::Warn);
        assert_eq!(path(&[peer(Some(udp)), peer(None)]).verdict, Verdict::Ok);
        let mixed = path(&[peer(Some(udp)), peer(Some(tcp))]);
        assert!(mixed.verdict == Verdict::Warn && mixed.what.contains("turin"), "{mixed:?}");
        assert_eq!(clocks(&[peer(Some(udp)), peer(None)]).len(), 1);
    }
}
