//! Keeps the machine as the latest snapshot says, whoever else changes it, and says how it is.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mercato_kubelet::{Repeated, warn_once};
use mercato_protocol::limits::LINE_BYTES;
use mercato_protocol::node::FromNode;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::force::{Force, Heard, Target, Word};
use super::machine::{Machine, Trouble};
use crate::limits;

/// How it is with this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// The snapshot that is in force; none before the first.
    word: Option<Word>,
    /// The largest packet of the network of the nodes here; zero while that is not known.
    mtu: u32,
    /// The node's address of the pool that is in force.
    pub(super) address: Option<IpAddr>,
    /// Why the latest snapshot is not in force, in a line.
    trouble: Option<String>,
}

impl Standing {
    /// The same as it is said on this connection.
    pub(super) fn state(&self, connection: u64) -> FromNode {
        let of_this = self.word.filter(|word| word.connection == connection);
        FromNode::State {
            version: of_this.map_or(0, |word| word.version),
            mtu: self.mtu,
            trouble: self.trouble.clone(),
        }
    }
}

/// What it is that keeps the machine so.
pub(super) struct NodeKeeper<M> {
    machine: Arc<M>,
    heard: watch::Receiver<Option<Heard>>,
    told: watch::Sender<Option<Standing>>,
    force: Force,
    standing: Standing,
    /// What was to go is gone.
    is_clean: bool,
    troubled: Repeated,
}

/// What came of a look at the machine.
struct Outcome {
    /// None: not asked for, or not known.
    mtu: Option<u32>,
    done: Result<Done, Trouble>,
}

enum Done {
    /// With this address of the pool, if there is one.
    Stays(Option<IpAddr>),
    /// Nobody has looked at it.
    Left,
    /// Whether there was anything to remove.
    Cleaned(bool),
    /// Whether anything has led to other clusters.
    Refused(bool),
    SetUp(IpAddr),
}

impl<M: Machine> NodeKeeper<M> {
    /// Keeps this machine: it hears snapshots there, and tells here. Nothing is told before the
    /// machine was looked at.
    pub(super) fn new(
        machine: Arc<M>,
        heard: watch::Receiver<Option<Heard>>,
        told: watch::Sender<Option<Standing>>,
    ) -> Self {
        let force = Force::new(machine.now_ms());
        let (standing, troubled) = (Standing::default(), Repeated::default());
        Self { machine, heard, told, force, standing, is_clean: false, troubled }
    }

    /// Does so for as long as snapshots may come.
    pub(super) async fn keep(mut self) {
        let mut news = None;
        loop {
            let pause = self.step(news).await;
            news = tokio::select! {
                changed = self.heard.changed() => match changed {
                    Ok(()) => self.heard.borrow_and_update().clone(),
                    Err(_) => return,
                },
                () = tokio::time::sleep(pause) => None,
            };
        }
    }

    /// One look at all of it, and what has to be done; gives when to look again.
    async fn step(&mut self, news: Option<Heard>) -> Duration {
        if let Some(heard) = news {
            if heard.snapshot.is_none() {
                tracing::info!("the daemon is on this node, and keeps its machine itself");
            }
            self.force.hear(heard);
            self.is_clean = false;
        }
        let ended = self.force.end(self.machine.now_ms());
        if ended > 0 {
            tracing::info!(ended, "leases have ended on this node, by its own clock");
        }
        let target = self.force.target();
        if target != Target::Nothing || !self.is_clean {
            let machine = self.machine.clone();
            let looking = spawn_blocking(move || look(&*machine, &target));
            let outcome = looking.await.unwrap_or_else(|error| {
                std::panic::resume_unwind(error.into_panic());
            });
            self.take(outcome);
            let told = Some(self.standing.clone());
            self.told.send_if_modified(|before| {
                let is_news = *before != told;
                *before = told;
                is_news
            });
        }
        let now_ms = self.machine.now_ms();
        let next = self.force.next_ms().map(|at| Duration::from_millis(at.saturating_sub(now_ms)));
        next.map_or(limits::FOLLOW_LOOK, |next| next.min(limits::FOLLOW_LOOK))
    }

    fn take(&mut self, outcome: Outcome) {
        let Outcome { mtu, done } = outcome;
        self.standing.mtu = mtu.unwrap_or(self.standing.mtu);
        let word = self.force.word();
        let address = match done {
            Err(trouble) => {
                let what = "this node is not set up for other clusters";
                warn_once!(self.troubled, trouble; "{what}");
                self.standing.trouble = Some(line(&trouble));
                return;
            }
            Ok(Done::Stays(address)) => address,
            Ok(Done::Left) => None,
            Ok(Done::Cleaned(was_there)) => {
                self.is_clean = true;
                was_there.then(|| tracing::info!("removed what other clusters were reached by"));
                None
            }
            Ok(Done::Refused(was_there)) => {
                if was_there {
                    // Once, for it leads nowhere from then on.
                    tracing::warn!(
                        "what an earlier process has set up leads nowhere from now on: the daemon \
                         of this cluster is not reached, and nobody says that it is still needed"
                    );
                }
                None
            }
            Ok(Done::SetUp(address)) => Some(address),
        };
        let was_troubled = self.troubled.is_over();
        if let (Some(address), Some(_)) = (address, word)
            && (was_troubled || self.standing.address != Some(address))
        {
            tracing::info!(%address, "this node is set up for other clusters");
        }
        self.standing.address = address;
        self.standing.word = word;
        self.standing.trouble = None;
    }
}

fn look(machine: &impl Machine, target: &Target) -> Outcome {
    match target {
        Target::Stay => Outcome { mtu: None, done: machine.address().map(Done::Stays) },
        Target::Leave => Outcome { mtu: Some(0), done: Ok(Done::Left) },
        Target::Nothing => Outcome { mtu: None, done: machine.clean().map(Done::Cleaned) },
        Target::Refuse => Outcome { mtu: None, done: machine.refuse().map(Done::Refused) },
        Target::SetUp(wanted) => {
            let local = wanted.overlay.as_ref().map(|overlay| overlay.local);
            // Where it cannot be asked for, nothing can be set up, which is said.
            let mtu = local.and_then(|local| machine.mtu_of(local).ok());
            let mtu = mtu.map(Option::unwrap_or_default);
            Outcome { mtu, done: machine.set_up(wanted).map(|()| Done::SetUp(wanted.node)) }
        }
    }
}

/// What is said of it to the daemon: not all bytes of names are text that it takes.
fn line(trouble: &Trouble) -> String {
    let shown = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    trouble.to_string().chars().take(LINE_BYTES).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use mercato_host::{HostError, Wanted};
    use mercato_protocol::codec::Message as _;
    use mercato_protocol::node::Snapshot;

    use super::super::testing::{Fake, lease, snapshot, way};
    use super::*;

    struct Stand {
        machine: Arc<Fake>,
        /// What is heard with the next step.
        heard: Option<Heard>,
        hear: watch::Sender<Option<Heard>>,
        told: watch::Receiver<Option<Standing>>,
        keeper: NodeKeeper<Fake>,
    }

    impl Stand {
        fn new(machine: Fake) -> Self {
            let machine = Arc::new(machine);
            let (hear, heard) = watch::channel(None);
            let (tell, told) = watch::channel(None);
            let keeper = NodeKeeper::new(machine.clone(), heard, tell);
            Self { machine, heard: None, hear, told, keeper }
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
                FromNode::State { version, mtu, trouble } => (version, mtu, trouble),
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
        assert_eq!(stand.standing().await.address, Some(way().address));
        stand.hear(1, Snapshot { way: None, ..snapshot(2, Vec::new()) });
        assert_eq!(stand.said(1).await.0, 2);
        assert_eq!((stand.set_up(), stand.standing().await.address), (None, None));
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
        assert_eq!((stand.standing().await.address, stand.set_up()), (None, None));
    }

    #[tokio::test]
    async fn a_restart_cuts_nothing() {
        let mut stand = Stand::new(Fake::default());
        stand.machine.now(|now| now.set_up = Some(super::super::testing::wanted()));
        let address = stand.standing().await.address;
        assert_eq!(address, Some(way().address), "known again");
        stand.machine.pass(limits::FOLLOW_EARLIER_MS - 1);
        stand.standing().await;
        assert!(stand.set_up().is_some());
        stand.hear(1, snapshot(1, Vec::new()));
        stand.machine.pass(1);
        assert_eq!(stand.said(1).await.0, 1);
        assert!(stand.set_up().is_some());
    }

    #[tokio::test]
    async fn what_nobody_vouches_for_leads_nowhere() {
        let mut stand = Stand::new(Fake::default());
        stand.machine.now(|now| now.set_up = Some(super::super::testing::wanted()));
        stand.standing().await;
        stand.machine.pass(limits::FOLLOW_EARLIER_MS);
        assert_eq!(stand.standing().await.address, None);
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
    async fn it_looks_by_itself() {
        let Stand { machine, hear, mut told, keeper, .. } = Stand::new(Fake::default());
        let keeping = tokio::spawn(keeper.keep());
        let is_there = |standing: &Option<Standing>| standing.is_some();
        told.wait_for(is_there).await.unwrap();
        let snapshot = Some(snapshot(1, Vec::new()));
        let heard = Heard { connection: 1, at_ms: machine.now_ms(), snapshot };
        hear.send_replace(Some(heard));
        let is_set_up = |standing: &Option<Standing>| {
            standing.as_ref().is_some_and(|standing| standing.word.is_some())
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
}
