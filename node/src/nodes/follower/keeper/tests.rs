//! A machine that is none is kept as snapshots say.

mod told;

use mercato_host::HostError;
use mercato_machine::Wanted;
use mercato_protocol::codec::Message as _;
use mercato_protocol::limits::LINE_BYTES;
use mercato_protocol::node::{FromNode, NodeNames, NodeState, NodeWay, Snapshot};
use mercato_protocol::tunnel::SECOND_POOL;

use super::super::testing::{Fake, lease, snapshot, way};
use super::*;

struct Stand {
    machine: Arc<Fake>,
    /// What is heard with the next step.
    heard: Option<Heard>,
    hear: watch::Sender<Option<Heard>>,
    serve: watch::Sender<Served>,
    told: watch::Receiver<Option<Standing>>,
    keeper: NodeKeeper<Fake>,
}

impl Stand {
    fn new(machine: Fake) -> Self {
        Self::of(Arc::new(machine))
    }

    /// A process that begins on that machine.
    fn of(machine: Arc<Fake>) -> Self {
        let (hear, heard) = watch::channel(None);
        let (tell, told) = watch::channel(None);
        let (serve, served) = watch::channel(Served::default());
        let keeper = NodeKeeper::new(machine.clone(), heard, served, tell);
        Self { machine, heard: None, hear, serve, told, keeper }
    }

    fn hear(&mut self, connection: u64, snapshot: Snapshot) {
        let at_ms = self.machine.now_ms();
        self.heard = Some(Heard { connection, at_ms, snapshot: Some(snapshot) });
    }

    async fn step(&mut self) -> Duration {
        self.keeper.step(self.heard.take()).await
    }

    /// After one step: how it is.
    async fn standing(&mut self) -> Standing {
        self.step().await;
        self.told.borrow_and_update().clone().unwrap()
    }

    fn set_up(&self) -> Option<Wanted> {
        self.machine.now(|now| now.set_up.clone())
    }

    /// What is said on a connection.
    async fn said(&mut self, connection: u64) -> (u64, u32, Option<String>) {
        match self.standing().await.state(connection) {
            FromNode::State(NodeState { version, mtu, trouble, .. }) => (version, mtu, trouble),
            hello @ FromNode::Hello { .. } => panic!("{hello:?}"),
        }
    }
}

#[tokio::test]
async fn a_snapshot_is_set_up_and_made_good() {
    let mut stand = Stand::new(Fake::default());
    assert_eq!(stand.said(1).await, (0, 0, None));
    stand.hear(1, snapshot(1, vec![lease(60_000, &["10.201.0.0/24"], &["10.42.0.5"])]));
    assert_eq!(stand.said(1).await, (1, 1_500, None));
    let first = stand.set_up().unwrap();
    assert_eq!((first.ranges.len(), first.pods.len()), (1, 1));
    // Somebody removes all of it.
    stand.machine.now(|now| now.set_up = None);
    assert_eq!(stand.step().await, limits::FOLLOW_LOOK);
    assert_eq!(stand.set_up(), Some(first));
    assert!(!stand.told.has_changed().unwrap(), "nothing new was said");
    stand.hear(1, snapshot(2, Vec::new()));
    assert_eq!(stand.said(1).await.0, 2);
    assert_eq!(stand.said(2).await.0, 0, "no snapshot of that connection is in force");
    assert!(stand.set_up().unwrap().ranges.is_empty());
}

#[tokio::test]
async fn a_snapshot_without_a_way_removes_it_once() {
    let mut stand = Stand::new(Fake::default());
    stand.hear(1, snapshot(1, Vec::new()));
    assert_eq!(stand.standing().await.set_up.address, Some(way().address));
    stand.hear(1, Snapshot { way: None, ..snapshot(2, Vec::new()) });
    assert_eq!(stand.said(1).await.0, 2);
    assert_eq!((stand.set_up(), stand.standing().await.set_up.address), (None, None));
    // It may be another's by now.
    stand.machine.now(|now| now.set_up = Some(super::super::testing::wanted()));
    stand.standing().await;
    assert!(stand.set_up().is_some());
    stand.hear(2, Snapshot { way: None, ..snapshot(1, Vec::new()) });
    assert_eq!(stand.said(2).await.0, 1);
    assert_eq!(stand.set_up(), None);
}

#[tokio::test]
async fn leases_end_while_the_daemon_is_away() {
    let mut stand = Stand::new(Fake::default());
    let leases = [lease(1_200, &["10.201.0.0/24"], &[]), lease(90_000, &[], &["10.42.0.5"])];
    stand.hear(1, snapshot(1, leases.to_vec()));
    assert_eq!(stand.step().await, Duration::from_millis(1_200));
    stand.machine.pass(1_200);
    assert_eq!(stand.step().await, limits::FOLLOW_LOOK);
    let wanted = stand.set_up().unwrap();
    assert_eq!((wanted.ranges.len(), wanted.pods.len()), (0, 1));
    // The machine sleeps for a day.
    stand.machine.pass(86_400_000);
    stand.standing().await;
    assert!(stand.set_up().unwrap().pods.is_empty());
    stand.machine.pass(limits::FOLLOW_ENDED_MS);
    assert_eq!((stand.standing().await.set_up.address, stand.set_up()), (None, None));
}

#[tokio::test]
async fn a_restart_cuts_nothing() {
    let mut stand = Stand::new(Fake::default());
    stand.machine.now(|now| now.set_up = Some(super::super::testing::wanted()));
    let address = stand.standing().await.set_up.address;
    assert_eq!(address, Some(way().address), "known again");
    stand.machine.pass(limits::FOLLOW_EARLIER_MS - 1);
    stand.standing().await;
    assert!(stand.set_up().is_some());
    stand.hear(1, snapshot(1, Vec::new()));
    stand.machine.pass(1);
    assert_eq!(stand.said(1).await.0, 1);
    assert!(stand.set_up().is_some());
}

/// As far as the machine has it in force.
fn listens(stand: &Stand) -> Option<bool> {
    stand.set_up().unwrap().names.map(|names| names.listens)
}

#[tokio::test]
async fn guests_ask_for_names_for_as_long_as_our_server_listens() {
    let names = NodeNames {
        address: "10.207.255.254".parse().unwrap(),
        domain: "cluster.local".to_owned(),
        servers: vec![],
    };
    let at = Some(names.address);
    let snapshot =
        Snapshot { way: Some(NodeWay { names: Some(names), ..way() }), ..snapshot(1, vec![]) };
    let mut stand = Stand::new(Fake::default());
    stand.hear(1, snapshot.clone());
    stand.step().await;
    assert_eq!(listens(&stand), Some(false), "the address is there, for it to begin");
    stand.serve.send_replace(Served { at, ..Served::default() });
    stand.step().await;
    assert_eq!(listens(&stand), Some(true));
    let unnamed = Some("another program has the port".to_owned());
    stand.serve.send_replace(Served { unnamed, ..Served::default() });
    stand.step().await;
    assert_eq!(listens(&stand), Some(false), "another one may");
    stand.serve.send_replace(Served { at, ..Served::default() });
    stand.step().await;
    // A process that begins knows nothing of whoever listens by now.
    let mut next = Stand::of(stand.machine);
    assert_eq!(listens(&next), Some(true));
    next.step().await;
    assert_eq!(listens(&next), Some(false));
    next.hear(1, snapshot);
    next.step().await;
    assert_eq!(listens(&next), Some(false), "it has not begun yet");
}

#[tokio::test]
async fn what_nobody_vouches_for_leads_nowhere() {
    let mut stand = Stand::new(Fake::default());
    stand.machine.now(|now| now.set_up = Some(super::super::testing::wanted()));
    stand.standing().await;
    stand.machine.pass(limits::FOLLOW_EARLIER_MS);
    assert_eq!(stand.standing().await.set_up.address, None);
    assert_eq!(stand.set_up(), None);
    stand.hear(1, snapshot(1, Vec::new()));
    assert_eq!(stand.said(1).await.0, 1);
    assert!(stand.set_up().is_some());
}

#[tokio::test]
async fn what_the_daemon_keeps_itself_is_not_touched() {
    let mut stand = Stand::new(Fake::default());
    stand.hear(1, snapshot(1, Vec::new()));
    assert_eq!(stand.said(1).await, (1, 1_500, None));
    stand.heard = Some(Heard { connection: 1, at_ms: 0, snapshot: None });
    stand.machine.now(|now| now.trouble = Some("nobody asks".to_owned()));
    assert_eq!(stand.said(1).await, (0, 0, None));
    stand.machine.pass(limits::FOLLOW_EARLIER_MS);
    assert_eq!(stand.standing().await, Standing::default());
    assert!(stand.set_up().is_some());
}

#[tokio::test]
async fn trouble_is_told_until_it_is_over() {
    let mut stand = Stand::new(Fake::default());
    stand.hear(1, snapshot(1, Vec::new()));
    stand.machine.now(|now| now.trouble = Some("the kernel \u{fc}\nrefuses ".repeat(90)));
    let (version, mtu, trouble) = stand.said(1).await;
    assert_eq!((version, mtu), (0, 1_500), "the size is known all the same");
    let trouble = trouble.unwrap();
    assert_eq!(trouble.len(), LINE_BYTES);
    assert!(trouble.starts_with("the device the kernel ??refuses the"), "{trouble}");
    let state = stand.standing().await.state(1);
    state.to_bytes().unwrap();
    stand.machine.now(|now| now.trouble = None);
    assert_eq!(stand.said(1).await, (1, 1_500, None));
    // What was in force is said, and that it is not made good.
    stand.machine.now(|now| now.trouble = Some("gone".to_owned()));
    stand.hear(1, snapshot(2, Vec::new()));
    let (version, _, trouble) = stand.said(1).await;
    assert!(version == 1 && trouble.is_some(), "{version} {trouble:?}");
    // Nor is anything removed that cannot be.
    stand.hear(1, Snapshot { way: None, ..snapshot(3, Vec::new()) });
    assert_eq!(stand.said(1).await.0, 1);
    stand.machine.now(|now| now.trouble = None);
    assert_eq!(stand.said(1).await.0, 3);
    assert_eq!(stand.set_up(), None);
}

#[tokio::test]
async fn the_first_family_does_not_wait_for_the_second() {
    let mut stand = Stand::new(Fake::default());
    let second = |standing: Standing| match standing.state(1) {
        FromNode::State(NodeState { version, trouble: None, second, .. }) => (version, second),
        other @ (FromNode::State(_) | FromNode::Hello { .. }) => panic!("{other:?}"),
    };
    let both = NodeWay { pool_v6: Some(SECOND_POOL.into()), ..way() };
    stand.machine.now(|now| now.second_trouble = Some("no IPv6".to_owned()));
    stand.hear(1, Snapshot { way: Some(both), ..snapshot(1, Vec::new()) });
    assert_eq!(second(stand.standing().await), (1, false));
    assert!(stand.set_up().is_some_and(|wanted| wanted.second.is_none()));
    stand.machine.now(|now| now.second_trouble = None);
    assert_eq!(second(stand.standing().await), (1, true));
    stand.hear(1, snapshot(2, Vec::new()));
    assert_eq!(second(stand.standing().await), (2, false), "it is not asked for");
}

#[tokio::test]
async fn it_looks_by_itself() {
    let Stand { machine, hear, mut told, keeper, .. } = Stand::new(Fake::default());
    let keeping = tokio::spawn(keeper.keep());
    let is_there = |standing: &Option<Standing>| standing.is_some();
    told.wait_for(is_there).await.unwrap();
    let snapshot = Some(snapshot(1, Vec::new()));
    let heard = Heard { connection: 1, at_ms: machine.now_ms(), snapshot };
    hear.send_replace(Some(heard));
    let is_set_up = |standing: &Option<Standing>| {
        standing.as_ref().is_some_and(|standing| standing.set_up.word.is_some())
    };
    told.wait_for(is_set_up).await.unwrap();
    drop(hear);
    keeping.await.unwrap();
    assert!(machine.now(|now| now.set_up.is_some()), "what is in force stays");
}

#[test]
fn the_whole_error_is_told() {
    let error = HostError::Networks { most: 7 };
    let told = line(&Trouble::Host(error));
    assert!(told.contains("more than 7") && told.contains("keep large"), "{told}");
}
