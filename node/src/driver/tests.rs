//! What cannot be written is not done, is refused, and does not stop the daemon.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mercato_agent::{Effect, Frame};
use mercato_broker::Approve;
use mercato_config::Share;
use mercato_net::{Limits, Net, NetConfig};
use mercato_protocol::envelope::KeyPair;
use mercato_protocol::id::ContractId;
use mercato_protocol::workload::{self as message, ToHome};

use super::*;
use crate::daemon::identity::Identity;
use crate::store::{Batch, Disk, Records};

/// A store on a disk that is full as long as it is told to be.
struct Full {
    disk: Disk,
    full: Arc<AtomicBool>,
}

impl Full {
    fn check(&self) -> Result<(), StoreError> {
        let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let full = self.full.load(Ordering::SeqCst);
        if full { Err(StoreError::Io { path: "/".into(), source }) } else { Ok(()) }
    }
}

impl Store for Full {
    fn commit(&mut self, batch: &Batch) -> Result<u64, StoreError> {
        self.check()?;
        self.disk.commit(batch)
    }

    fn failure(&self) -> Option<String> {
        self.disk.failure()
    }

    fn scan(&self) -> Result<Records, StoreError> {
        self.disk.scan()
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.check()?;
        self.disk.reopen()
    }
}

/// A driver over that store, and who it is.
pub(super) fn driver_over(dir: &Path, store: Box<dyn Store>) -> Driver {
    let identity = Identity::open(dir, "rome").unwrap();
    let net = NetConfig::new(*identity.seed(), vec![], Limits::default());
    let (net, _events) = Net::start(net).unwrap();
    let metrics = Metrics::new();
    let parts =
        Parts { config: identity.config(), store, net, kubernetes: None, metrics, tunnels: None };
    let (messages, _received) = mpsc::channel(1);
    Driver::new(parts, messages).unwrap()
}

/// What is still said of a lease that is over keeps no tasks: they end where they rest, and all of
/// it once nothing more is said.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_a_lease_that_is_over_keeps_no_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(&dir.path().join("records")).unwrap();
    let mut driver = driver_over(dir.path(), Box::new(disk));
    let (peer, contract) = (KeyPair::from_seed(&[7; 32]).public(), ContractId([1; 16]));
    let says = |driver: &mut Driver| {
        let frame = Frame::ToHome(message::Frame {
            from: 1,
            to: 1,
            seq: 1,
            ack: 0,
            answer: false,
            statements: vec![ToHome::HaveEnd],
        });
        driver.perform(Effect::Workload { peer, contract, frame });
    };
    for _ in 0..2 {
        says(&mut driver);
        assert!(!driver.outbound[&contract].has_ended(), "it speaks, also after a rest");
        let deadline = Instant::now() + 4 * limits::OVER_RESTS;
        while !driver.outbound[&contract].has_ended() {
            assert!(Instant::now() < deadline, "its tasks stay");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    driver.perform(Effect::CloseStreams(contract));
    assert!(driver.outbound.is_empty());
}

pub(super) async fn shares(
    driver: &mut Driver,
    approve: Approve,
) -> Option<Result<Reply, Refusal>> {
    let policy = Share { approve, ..Share::default() }.policy();
    let (reply, answer) = oneshot::channel();
    driver.take(Message::Command(Command::Share(Some(policy)), reply));
    driver.settle().await;
    answer.await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_degrades_the_daemon_until_there_is_space() {
    let dir = tempfile::tempdir().unwrap();
    let full = Arc::new(AtomicBool::new(false));
    let disk = Disk::open(&dir.path().join("records")).unwrap();
    let mut driver = driver_over(dir.path(), Box::new(Full { disk, full: full.clone() }));

    assert_eq!(shares(&mut driver, Approve::Ask).await, Some(Ok(Reply::Done)));
    full.store(true, Ordering::SeqCst);
    let refused = Some(Err(Refusal::Degraded));
    assert_eq!(shares(&mut driver, Approve::Auto).await, refused, "what is not kept is not done");
    let approve = |driver: &Driver| driver.agent().broker().share().unwrap().approve;
    assert_eq!(approve(&driver), Approve::Ask);
    assert!(driver.agent().degraded().unwrap().contains("storage space"));
    let retry_ms = driver.retry_ms;
    assert_eq!(shares(&mut driver, Approve::Auto).await, refused);
    assert_eq!(driver.retry_ms, retry_ms, "a further failure puts nothing off");

    driver.retry_ms = Some(0);
    driver.recover().await;
    assert!(driver.agent().degraded().is_some(), "the disk is still full");
    full.store(false, Ordering::SeqCst);
    driver.retry_ms = Some(0);
    driver.recover().await;
    assert_eq!(driver.agent().degraded(), None);
    assert_eq!(shares(&mut driver, Approve::Auto).await, Some(Ok(Reply::Done)));
    assert_eq!(approve(&driver), Approve::Auto);
}
