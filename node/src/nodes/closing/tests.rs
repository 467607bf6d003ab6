//! Guests of a machine that is none, whose gates ask by TCP of this one.

mod asked;
mod called;
mod opened;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard};

use ipnet::IpNet;
use mercato_host::{HostError, Sandbox};
use mercato_machine::{Closed, NotForwarded};
use mercato_protocol::gate::GuestUid;

use super::sandboxes::Sandboxes;
use super::*;

/// What is in force in the sandbox of this machine's one pod, and why nothing can be.
#[derive(Default)]
struct Fake(Mutex<Now>);

#[derive(Default)]
struct Now {
    is_there: bool,
    closed: Option<Closed>,
    trouble: bool,
    /// Somebody's chain drops what is forwarded, in these packet rules.
    drops: bool,
    generation: u32,
    /// Somebody has closed it before.
    has_rules: bool,
    /// By what address it knew itself before this run, and what was to be in force of that since.
    called: Option<Ipv4Addr>,
    callings: Vec<Option<Ipv4Addr>>,
    /// How often it was closed, or kept so, and how often released.
    closings: u32,
    releases: u32,
    /// How often somebody else was looked for.
    sought: u32,
    /// How often all pods were looked for, and whether they cannot be seen.
    looks: u32,
    unseen: bool,
    /// Why its sandbox cannot be closed, or not with another address.
    unclosed: bool,
    uncalled: bool,
    /// How often it was not.
    refusals: u32,
    /// How often what is left over has gone.
    forgotten: u32,
    /// Whose connections are forgotten, and with whom.
    connections: Vec<(BTreeSet<IpAddr>, BTreeSet<IpNet>)>,
}

const POD: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NAMES: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 207, 255, 254));

impl Fake {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap()
    }
}

impl Sandboxes for Fake {
    fn try_to_close(&self) -> Result<(), HostError> {
        if self.now().trouble { Err(HostError::NotClosed) } else { Ok(()) }
    }

    fn try_to_forward(&self) -> Result<(), HostError> {
        let (chains, drops) = (Vec::new(), self.now().drops);
        if drops { Err(NotForwarded { chains }.into()) } else { Ok(()) }
    }

    fn generation(&self) -> Result<u32, HostError> {
        Ok(self.now().generation)
    }

    fn addresses(&self) -> Result<BTreeSet<IpAddr>, HostError> {
        Ok(["192.0.2.1".parse().unwrap()].into())
    }

    fn pods(&self) -> Result<BTreeSet<IpAddr>, HostError> {
        let mut now = self.now();
        now.looks += 1;
        if now.unseen {
            return Err(HostError::NotClosed);
        }
        Ok(now.is_there.then_some(POD).into_iter().collect())
    }

    fn find(&self, pod: IpAddr) -> Result<Option<(Sandbox, BTreeSet<IpAddr>)>, HostError> {
        let sandbox = Sandbox { path: "/run/netns/one".into(), id: (1, 2), device: 2, peer: None };
        self.now().sought += u32::from(pod != POD);
        let found = (pod == POD && self.now().is_there).then(|| (sandbox, [POD].into()));
        Ok(found)
    }

    fn close(&self, sandbox: &Sandbox, wanted: &Closed) -> Result<(), HostError> {
        let mut now = self.now();
        if now.unclosed || (now.uncalled && wanted.called.is_some()) {
            now.refusals += 1;
            return Err(HostError::NotClosed);
        }
        now.callings.push(wanted.called);
        match now.is_there {
            true => (now.closed, now.closings) = (Some(wanted.clone()), now.closings + 1),
            false => return Err(HostError::SandboxGone { path: sandbox.path.clone() }),
        }
        Ok(())
    }

    fn release(&self, _: &Sandbox) -> Result<(), HostError> {
        let mut now = self.now();
        (now.closed, now.has_rules, now.releases) = (None, false, now.releases + 1);
        Ok(())
    }

    fn has_rules(&self, _: &Sandbox) -> Result<bool, HostError> {
        Ok(self.now().has_rules)
    }

    fn called(&self, _: &Sandbox) -> Result<Option<Ipv4Addr>, HostError> {
        let now = self.now();
        Ok(now.closed.as_ref().map_or(now.called, |closed| closed.called))
    }

    fn closed(&self) -> Result<Vec<(IpAddr, Sandbox, BTreeSet<IpAddr>)>, HostError> {
        let found = self.find(POD)?.filter(|_| self.now().has_rules);
        Ok(found.into_iter().map(|(sandbox, own)| (POD, sandbox, own)).collect())
    }

    fn forget_connections(
        &self,
        own: &BTreeSet<IpAddr>,
        reached: &BTreeSet<IpNet>,
    ) -> Result<(), HostError> {
        self.now().connections.push((own.clone(), reached.clone()));
        Ok(())
    }

    fn forget(&self, _: &[&Sandbox]) -> Result<(), HostError> {
        self.now().forgotten += 1;
        Ok(())
    }
}

/// As [`Closing::start`] does, with that machine.
fn start(fake: &Arc<Fake>) -> Closing {
    let (rules, ruled) = watch::channel(None);
    let (tell, closings) =
        watch::channel(Closings { trouble: Some(String::new()), ..Closings::default() });
    let (ask, asked) = mpsc::channel(limits::GATE_ASKS);
    let mut tasks = JoinSet::new();
    tasks.spawn(gate::answer(fake.clone(), ruled.clone(), ask));
    let (tried, forwarding) = watch::channel(forwarding::untried());
    tasks.spawn(forwarding::try_again(fake.clone(), tried));
    tasks.spawn(ClosingKeeper::new(fake.clone(), ruled, asked, tell, forwarding).keep());
    Closing { rules, closings, _tasks: tasks }
}

fn uid() -> GuestUid {
    "one-guest".parse().unwrap()
}

fn rules(port: u16, pod: Option<IpAddr>, reached: &str) -> ClosingRules {
    let reached = Arc::new([reached.parse().unwrap()].into());
    let guests = [(uid(), GuestRule { pod, reached, ..GuestRule::default() })].into();
    ClosingRules { port, guests, names: Some(NAMES), ..ClosingRules::default() }
}

/// The same, where the one pod of this machine is known to be no guest.
fn rules_of_others(port: u16, pod: Option<IpAddr>) -> ClosingRules {
    let others = Arc::new([POD].into());
    ClosingRules { others, ..rules(port, pod, "10.201.3.0/25") }
}

/// What is answered at that port of this machine, once somebody is there.
async fn ask(port: u16, line: &'static str) -> String {
    let until = std::time::Instant::now() + limits::CLOSE_LOOK * 4;
    let asking = move || loop {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
            assert!(std::time::Instant::now() < until, "nobody is at the port {port}");
            std::thread::sleep(std::time::Duration::from_millis(1));
            continue;
        };
        // Whoever is hung up on has heard nothing, and is hung up on before a line as well.
        let mut said = String::new();
        let _ = stream.write_all(line.as_bytes()).and_then(|()| stream.read_to_string(&mut said));
        return said;
    };
    tokio::task::spawn_blocking(asking).await.unwrap()
}

/// A port that nobody has: below those that the kernel gives to whoever connects, as the tests
/// beside this one do all the time, and another one for each test.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 16_384 + u16::try_from(std::process::id() % 128).unwrap() * 128;
    let mut ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed) % 128);
    let is_free = |port: &u16| std::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).is_ok();
    ports.by_ref().take(128).find(is_free).expect("a free port")
}

/// Waits until that is so.
async fn comes(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(limits::CLOSE_LOOK * 4, waiting).await.unwrap();
}

async fn until(closings: &mut watch::Receiver<Closings>, is: impl FnMut(&Closings) -> bool) {
    let waiting = closings.wait_for(is);
    tokio::time::timeout(limits::CLOSE_LOOK * 4, waiting).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_opens_once_its_pod_is_closed() {
    let fake = Arc::new(Fake::default());
    let (closing, port) = (start(&fake), port());
    let mut closings = closing.closings();
    until(&mut closings, |now| now.trouble.is_none()).await;
    closing.rule(rules(port, None, "10.201.3.0/25"));
    assert_eq!(ask(port, "one-guest\n").await, "", "no such pod is here");
    assert!(closings.borrow().addresses.is_empty());
    fake.now().is_there = true;
    assert_eq!(ask(port, "another\n").await, "wait\n");
    assert_eq!(ask(port, "One-Guest\n").await, "", "no question");
    assert_eq!(ask(port, "one-guest\n").await, "open\n");
    let first = fake.now().closed.clone().unwrap();
    assert_eq!((first.own, first.gate), ([POD].into(), port), "it may ask again");
    assert_eq!(first.reached, ["10.201.3.0/25".parse().unwrap()].into());
    assert_eq!(first.node, ["192.0.2.1".parse().unwrap()].into());
    assert!(closings.borrow().addresses.is_empty(), "its gate may ask again");
    // Its gate is known to be open, and its lease reaches another range.
    closing.rule(rules(port, Some(POD), "10.201.4.0/25"));
    let is_so = || fake.now().closed.as_ref().is_some_and(|now| now.gate == 0);
    comes(is_so).await;
    until(&mut closings, |now| now.addresses == [POD].into()).await;
    // Nobody speaks of it any more, and it runs on.
    closing.rule(ClosingRules::default());
    let is_so = || fake.now().closed.as_ref().is_some_and(|now| now.reached.is_empty());
    comes(is_so).await;
    let before = fake.now().forgotten;
    fake.now().is_there = false;
    closing.rule(rules(0, None, "10.201.3.0/25"));
    until(&mut closings, |now| now.addresses.is_empty()).await;
    assert!(fake.now().forgotten > before, "nothing of it is left on the node");
    let connections = fake.now().connections.clone();
    let called = ["10.201.3.0/25".parse().unwrap(), NAMES.into()].into();
    assert_eq!(connections, [([POD].into(), called)], "conntrack knows them yet");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_known_to_run_is_closed_without_asking() {
    let fake = Arc::new(Fake::default());
    (fake.now().is_there, fake.now().has_rules) = (true, true);
    let closing = start(&fake);
    closing.rule(rules(0, Some(POD), "10.201.3.0/25"));
    until(&mut closing.closings(), |now| now.addresses.contains(&POD)).await;
    assert_eq!(fake.now().closed.clone().unwrap().gate, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_of_an_earlier_run_reaches_nobody_if_nobody_speaks_of_it() {
    let fake = Arc::new(Fake::default());
    (fake.now().is_there, fake.now().has_rules) = (true, true);
    let closing = start(&fake);
    let port = port();
    closing.rule(ClosingRules { port, ..ClosingRules::default() });
    let closed = || fake.now().closed.clone();
    comes(|| closed().is_some()).await;
    let closed = closed().unwrap();
    assert_eq!((closed.reached.len(), closed.gate), (0, port), "its gate may not have heard");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_stays_closed_until_its_end_where_nothing_is_needed_any_more() {
    let fake = Arc::new(Fake::default());
    (fake.now().is_there, fake.now().has_rules) = (true, true);
    let closing = start(&fake);
    until(&mut closing.closings(), |now| now.trouble.is_none()).await;
    assert!(fake.now().closed.is_none() && fake.now().forgotten == 0, "nobody has said anything");
    closing.rule(ClosingRules::default());
    comes(|| fake.now().closed.is_some()).await;
    comes(|| fake.now().forgotten > 0).await;
    let before = fake.now().forgotten;
    fake.now().is_there = false;
    comes(|| fake.now().forgotten > before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_known_to_be_no_guest_is_not_closed() {
    let fake = Arc::new(Fake::default());
    fake.now().is_there = true;
    let (closing, port) = (start(&fake), port());
    closing.rule(rules_of_others(port, None));
    assert_eq!(ask(port, "one-guest\n").await, "wait\n");
    assert!(fake.now().closed.is_none());
    closing.rule(rules(port, None, "10.201.3.0/25"));
    assert_eq!(ask(port, "one-guest\n").await, "open\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_does_not_become_another_by_what_it_asks() {
    let fake = Arc::new(Fake::default());
    fake.now().is_there = true;
    let (closing, port) = (start(&fake), port());
    let mut two = rules(port, None, "10.201.3.0/25");
    let reached = Arc::new(["10.201.4.0/25".parse().unwrap()].into());
    let rule = GuestRule { reached, ..GuestRule::default() };
    two.guests.insert("other-guest".parse().unwrap(), rule);
    closing.rule(two);
    assert_eq!(ask(port, "one-guest\n").await, "open\n");
    assert_eq!(ask(port, "other-guest\n").await, "wait\n");
    let closed = fake.now().closed.clone().unwrap();
    assert_eq!(closed.reached, ["10.201.3.0/25".parse().unwrap()].into());
    assert_eq!(ask(port, "one-guest\n").await, "open\n", "it may not have heard");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_asks_in_vain_is_trouble_until_it_is_closed() {
    let fake = Arc::new(Fake::default());
    (fake.now().is_there, fake.now().unclosed) = (true, true);
    let (closing, port) = (start(&fake), port());
    let mut closings = closing.closings();
    closing.rule(rules(port, None, "10.201.3.0/25"));
    until(&mut closings, |now| now.trouble.is_none()).await;
    assert_eq!(ask(port, "one-guest\n").await, "wait\n");
    // Whatever else is asked, and whatever is looked at.
    assert_eq!(ask(port, "another\n").await, "wait\n");
    assert!(closings.borrow().trouble.is_some());
    fake.now().unclosed = false;
    assert_eq!(ask(port, "one-guest\n").await, "open\n");
    assert!(closings.borrow().trouble.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_of_a_guest_is_trouble_once_it_lasts() {
    let fake = Arc::new(Fake::default());
    (fake.now().is_there, fake.now().has_rules) = (true, true);
    let closing = start(&fake);
    let mut closings = closing.closings();
    closing.rule(rules(0, Some(POD), "10.201.3.0/25"));
    until(&mut closings, |now| now.addresses.contains(&POD) && now.trouble.is_none()).await;
    let begun = std::time::Instant::now();
    fake.now().unclosed = true;
    // By the second look what the first one has found is told.
    for (looks, reached) in [(1, "10.201.4.0/25"), (2, "10.201.5.0/25")] {
        closing.rule(rules(0, Some(POD), reached));
        comes(|| fake.now().refusals >= looks).await;
    }
    let is_trouble = closings.borrow().trouble.is_some();
    assert!(!is_trouble || begun.elapsed() >= limits::CLOSE_LOOK, "at once");
    until(&mut closings, |now| now.trouble.is_some()).await;
    fake.now().unclosed = false;
    closing.rule(rules(0, Some(POD), "10.201.6.0/25"));
    until(&mut closings, |now| now.trouble.is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_closes_nobody_says_so() {
    let fake = Arc::new(Fake::default());
    fake.now().trouble = true;
    let closing = start(&fake);
    let says = |now: &Closings| now.trouble.as_ref().is_some_and(|why| why.contains("netdev"));
    until(&mut closing.closings(), says).await;
    fake.now().trouble = false;
    until(&mut closing.closings(), |now| now.trouble.is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_forwards_nothing_says_so_once_its_rules_change() {
    let fake = Arc::new(Fake::default());
    let closing = start(&fake);
    let mut closings = closing.closings();
    until(&mut closings, |now| now.trouble.is_none()).await;
    let says = |now: &Closings| now.trouble.as_ref().is_some_and(|why| why.contains("forward"));
    {
        let mut now = fake.now();
        (now.drops, now.generation) = (true, 1);
    }
    until(&mut closings, says).await;
    // What drops it may have been no packet rule.
    fake.now().drops = false;
    until(&mut closings, |now| now.trouble.is_none()).await;
}
