//! Home's names for the guests on this node: told by what the daemon has said last, also while it is
//! away.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use mercato_kubelet::{Repeated, warn_once};
use mercato_names::{Bounds, Knowledge, NameServer, Zone};
use mercato_protocol::codec::CodecError;
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ContractId;
use mercato_protocol::limits::NODE_LEASES;
use mercato_protocol::names::{LeaseNames, NamesChange};
use mercato_protocol::node::{Snapshot, UnopenedName};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::force::Heard;
use super::machine::Machine;
use crate::limits;
use crate::nodes::never;

/// The names of each lease, as they were said last.
pub(super) type Zones = BTreeMap<ContractId, Arc<Zone>>;

/// How it is with the name server of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    /// Where it listens, by UDP and TCP: nobody else has that port there then, at all addresses either.
    pub(super) at: Option<IpAddr>,
    /// Why guests here are told no names, though they should be.
    pub(super) unnamed: Option<String>,
    /// For which names of namespaces that are not open to them guests here have asked lately.
    pub(super) unopened: BTreeSet<UnopenedName>,
}

/// What was said on a connection: its changes are of this.
#[derive(Default)]
pub(super) struct Said {
    all: BTreeMap<ContractId, (u64, LeaseNames)>,
}

impl Said {
    /// Takes all names of one lease.
    pub(super) fn take(&mut self, zones: &watch::Sender<Zones>, number: u64, names: LeaseNames) {
        let lease = names.lease;
        if self.all.len() < NODE_LEASES || self.all.contains_key(&lease) {
            let zone = Arc::new(Zone::new(&names));
            self.all.insert(lease, (number, names));
            zones.send_modify(|zones| drop(zones.insert(lease, zone)));
        }
    }

    /// Takes what is another in them.
    ///
    /// # Errors
    /// Where it changes other names than were said last.
    pub(super) fn change(
        &mut self,
        zones: &watch::Sender<Zones>,
        change: &NamesChange,
    ) -> Result<(), CodecError> {
        let before = self.all.get(&change.lease).filter(|(number, _)| *number == change.after);
        let Some((_, names)) = before else {
            return Err(CodecError::Invalid("a change of names that were not said"));
        };
        let names = change.apply(names)?;
        self.take(zones, change.number, names);
        Ok(())
    }

    /// Forgets the names of leases that a snapshot does not have.
    pub(super) fn retain(&mut self, zones: &watch::Sender<Zones>, snapshot: Option<&Snapshot>) {
        retain(zones, snapshot);
        self.all.retain(|id, _| has(snapshot, id));
    }
}

fn has(snapshot: Option<&Snapshot>, id: &ContractId) -> bool {
    let lease = snapshot.and_then(|snapshot| snapshot.leases.get(id));
    lease.is_some_and(|lease| !lease.askers.is_empty())
}

fn retain(zones: &watch::Sender<Zones>, snapshot: Option<&Snapshot>) {
    zones.send_if_modified(|zones| {
        let before = zones.len();
        zones.retain(|id, _| has(snapshot, id));
        zones.len() != before
    });
}

/// Tells guests names for as long as anything may be said; and whoever keeps the machine where, or why not.
pub(super) async fn serve(
    machine: Arc<impl Machine>,
    mut heard: watch::Receiver<Option<Heard>>,
    mut zones: watch::Receiver<Zones>,
    tell: watch::Sender<Served>,
) {
    let (mut server, mut failing) = (None::<NameServer>, Repeated::default());
    let mut failed = None::<Failed>;
    loop {
        let now = heard.borrow_and_update().clone();
        let all = zones.borrow_and_update().clone();
        let mut pause = limits::FOLLOW_LOOK;
        let own = match now.as_ref().is_some_and(|heard| !outward(heard).is_empty()) {
            true => networks(&machine).await,
            false => BTreeSet::new(),
        };
        match now.and_then(|heard| wanted(&heard, all, &own, machine.now_ms())) {
            None => (server, failed) = (None, None),
            Some(Wanted { at, knowledge, left }) => {
                pause = left.min(pause);
                if server.as_mut().is_some_and(|it| it.address() != at || it.has_ended()) {
                    server = None;
                }
                if server.is_none() {
                    match NameServer::start(at, Bounds::default()) {
                        Ok(started) => {
                            failing.is_over();
                            (server, failed) = (Some(started), None);
                        }
                        // The address comes with the rest, a moment later.
                        Err(error) => {
                            pause = limits::NAMES_AGAIN;
                            let is_late = error.kind() == io::ErrorKind::AddrNotAvailable;
                            let since = failed.map_or_else(Instant::now, |it| it.since);
                            let why = format!("nobody can listen at {at}: {error}");
                            let now = Failed { since, is_late, why };
                            if now.lasts() {
                                let what = "guests on this node are told no names yet";
                                warn_once!(failing, error; address = %at, "{what}");
                            }
                            failed = Some(now);
                        }
                    }
                }
                if let Some(server) = &server {
                    server.know(knowledge);
                }
            }
        }
        let lasting = failed.as_ref().filter(|it| it.lasts());
        let at = server.as_ref().map(|server| server.address().ip());
        let unopened = server.as_ref().map(NameServer::unopened).unwrap_or_default();
        let served = Served { at, unnamed: lasting.map(|it| it.why.clone()), unopened };
        tell.send_if_modified(|before| std::mem::replace(before, served.clone()) != served);
        tokio::select! {
            changed = heard.changed() => if changed.is_err() { return },
            changed = zones.changed() => if changed.is_err() { return },
            () = sleep(pause) => {}
        }
    }
}

/// Why nobody listens for guests yet.
struct Failed {
    since: Instant,
    /// The address is not here, and comes with the rest of what is set up, most often.
    is_late: bool,
    why: String,
}

impl Failed {
    /// Whether it is more than the moment that the address takes to come.
    fn lasts(&self) -> bool {
        !self.is_late || self.since.elapsed() >= limits::NAMES_WAIT
    }
}

/// Leases whose guests are closed and reach the Internet: of others' answers they are told what they may reach.
fn outward(heard: &Heard) -> BTreeSet<ContractId> {
    let leases = heard.snapshot.iter().flat_map(|snapshot| &snapshot.leases);
    leases.filter(|(_, lease)| lease.egress != Egress::None).map(|(id, _)| *id).collect()
}

/// Those of the machine's own; nobody is told of them whose egress is not kept.
async fn networks<M: Machine>(machine: &Arc<M>) -> BTreeSet<IpNet> {
    let machine = machine.clone();
    let own = spawn_blocking(move || machine.networks()).await;
    own.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())).unwrap_or_default()
}

/// Where guests are told names, by what, and how long that holds.
struct Wanted {
    at: SocketAddr,
    knowledge: Knowledge,
    left: Duration,
}

/// None: no guest is told any here.
fn wanted(heard: &Heard, zones: Zones, own: &BTreeSet<IpNet>, now_ms: u64) -> Option<Wanted> {
    let snapshot = heard.snapshot.as_ref()?;
    let names = snapshot.way.as_ref()?.names.as_ref()?;
    let (mut guests, mut left) = (BTreeMap::new(), Duration::MAX);
    for (id, lease) in snapshot.leases.iter().filter(|(_, lease)| !lease.askers.is_empty()) {
        let end_ms = heard.at_ms.saturating_add(lease.left_ms);
        if end_ms <= now_ms {
            continue;
        }
        left = left.min(Duration::from_millis(end_ms - now_ms));
        guests.extend(lease.askers.iter().map(|guest| (*guest, *id)));
    }
    let server = |address: &IpAddr| SocketAddr::new(*address, limits::NAMES_PORT);
    let servers = names.servers.iter().map(server).collect();
    let outward = outward(heard);
    let never = never::all(&snapshot.never, own);
    let never = outward.into_iter().map(|id| (id, never.clone())).collect();
    let knowledge = Knowledge { domain: names.domain.clone(), servers, guests, zones, never };
    Some(Wanted { at: server(&names.address), knowledge, left })
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ContractId;
    use mercato_protocol::names::Numbered;
    use mercato_protocol::node::{NodeLease, NodeNames, NodeWay};

    use super::super::testing::{Fake, lease, snapshot, way};
    use super::*;

    const LEASE: ContractId = ContractId([5; 16]);
    const OTHER: ContractId = ContractId([6; 16]);

    fn names(lease: ContractId) -> LeaseNames {
        let domains = vec!["rome.example".to_owned()];
        let (is_part, forwards) = (false, true);
        let (namespaces, own) = (vec![], vec![]);
        let ranges = vec![];
        LeaseNames { lease, domains, is_part, forwards, namespaces, api: None, own, ranges }
    }

    fn heard(leases: Vec<(ContractId, NodeLease)>) -> Heard {
        let of = NodeNames {
            address: "10.207.255.254".parse().unwrap(),
            domain: "cluster.local".into(),
            servers: vec!["192.0.2.53".parse().unwrap()],
        };
        let way = Some(NodeWay { names: Some(of), ..way() });
        let leases = leases.into_iter().collect();
        let snapshot = Snapshot { way, leases, ..snapshot(3, vec![]) };
        Heard { connection: 1, at_ms: 1_000, snapshot: Some(snapshot) }
    }

    fn asking(left_ms: u64, id: ContractId, guest: &str) -> (ContractId, NodeLease) {
        let askers = [guest.parse().unwrap()].into();
        (id, NodeLease { guests: true, askers, ..lease(left_ms, &[], &[]) })
    }

    #[test]
    fn guests_of_leases_in_force_are_told_names_where_the_way_says() {
        let said = heard(vec![asking(500, LEASE, "10.42.0.7"), asking(900, OTHER, "10.42.0.8")]);
        let at = |now_ms| wanted(&said, Zones::new(), &own(), now_ms).unwrap();
        let both = at(1_100);
        assert_eq!(both.at, "10.207.255.254:53".parse().unwrap());
        assert_eq!(both.knowledge.servers, ["192.0.2.53:53".parse().unwrap()]);
        assert_eq!((both.knowledge.guests.len(), both.left), (2, Duration::from_millis(400)));
        let one = at(1_500).knowledge.guests;
        assert_eq!(one, [("10.42.0.8".parse().unwrap(), OTHER)].into(), "one has ended");
        let none = Heard { snapshot: None, ..said.clone() };
        assert!(wanted(&none, Zones::new(), &own(), 0).is_none());
        let plain = Heard { snapshot: Some(snapshot(4, vec![])), ..said };
        assert!(wanted(&plain, Zones::new(), &own(), 0).is_none(), "the way says nothing of names");
    }

    fn own() -> BTreeSet<IpNet> {
        ["9.9.9.0/24".parse().unwrap()].into()
    }

    #[test]
    fn who_reaches_the_internet_is_told_of_nobody_near() {
        let (id, plain) = asking(500, LEASE, "10.42.0.7");
        let goes_out = NodeLease { egress: Egress::Internet, ..plain };
        let mut said = heard(vec![(id, goes_out), asking(900, OTHER, "10.42.0.8")]);
        said.snapshot.as_mut().unwrap().never = ["8.8.8.0/24".parse().unwrap()].into();
        let known = wanted(&said, Zones::new(), &own(), 1_000).unwrap().knowledge;
        let never = &known.never[&LEASE];
        for near in ["9.9.9.9", "8.8.8.8", "10.42.0.1", "fd00::1"] {
            let near: IpAddr = near.parse().unwrap();
            assert!(never.iter().any(|net| net.contains(&near)), "{near}");
        }
        assert!(!known.never.contains_key(&OTHER), "whose network keeps them, or nothing does");
    }

    #[test]
    fn names_go_with_their_lease() {
        let ((zones, known), mut all) = (watch::channel(Zones::new()), Said::default());
        for id in [LEASE, OTHER] {
            all.take(&zones, 1, names(id));
        }
        let said = heard(vec![asking(500, LEASE, "10.42.0.7")]);
        all.retain(&zones, said.snapshot.as_ref());
        assert_eq!(known.borrow().keys().copied().collect::<Vec<_>>(), [LEASE]);
        all.retain(&zones, None);
        assert!(known.borrow().is_empty() && all.all.is_empty());
    }

    #[test]
    fn a_change_is_of_what_was_said_last_on_the_connection() {
        let ((zones, known), mut all) = (watch::channel(Zones::new()), Said::default());
        let before = names(LEASE);
        let mut now = before.clone();
        now.domains.push("alps.example".to_owned());
        let of = |number, names| Numbered { number, names };
        let change = NamesChange::between(of(3, &before), of(4, &now)).unwrap();
        assert!(all.change(&zones, &change).is_err(), "nothing was said");
        all.take(&zones, 2, before.clone());
        assert!(all.change(&zones, &change).is_err(), "others were said");
        assert_eq!(**known.borrow().get(&LEASE).unwrap(), Zone::new(&before));
        all.take(&zones, 3, before);
        all.change(&zones, &change).unwrap();
        assert_eq!(**known.borrow().get(&LEASE).unwrap(), Zone::new(&now));
        assert!(all.change(&zones, &change).is_err(), "it was said before");
        assert!(Said::default().change(&zones, &change).is_err(), "on another connection");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_cannot_listen_says_so_until_there_is_nobody_to_tell() {
        let machine = Arc::new(Fake::default());
        let (hear, to_hear) = watch::channel(None);
        let (_zones, zones) = watch::channel(Zones::new());
        let (tell, mut served) = watch::channel(Served::default());
        let serving = tokio::spawn(serve(machine, to_hear, zones, tell));
        let begun = Instant::now();
        // No machine of tests has the address.
        hear.send_replace(Some(heard(vec![asking(60_000, LEASE, "10.42.0.7")])));
        let fails = |served: &Served| served.unnamed.is_some();
        let Served { at: None, unnamed: Some(why), .. } =
            served.wait_for(fails).await.unwrap().clone()
        else {
            panic!("it listens")
        };
        assert!(why.starts_with("nobody can listen at 10.207.255.254:53: "), "{why}");
        assert!(begun.elapsed() >= limits::NAMES_WAIT, "it may come yet");
        hear.send_replace(Some(Heard { snapshot: None, ..heard(vec![]) }));
        served.wait_for(|served| !fails(served)).await.unwrap();
        drop(hear);
        serving.await.unwrap();
    }
}
