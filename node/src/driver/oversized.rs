//! What is large, from whoever can send it: it is kept as large as it may be, and what cannot be
//! kept fails alone. Neither is taken for a broken disk.

use std::path::Path;

use mercato_agent::{
    Ahead, BrokerInput, FederationInput, FederationRecord, FederationRefusal, LeasesAhead, Papers,
    Record, TooLarge, limits::RECORD_BYTES,
};
use mercato_broker::Approve;
use mercato_gossip::Opened;
use mercato_protocol::ad::{AdHeader, PoolRow};
use mercato_protocol::certificate::RevocationList;
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::{KeyPair, Signed, Signers, Trust};
use mercato_protocol::equivocation::{Equivocation, Word};
use mercato_protocol::federation::Root;
use mercato_protocol::gossip::{Message as Gossip, Publication};
use mercato_protocol::id::{ClusterId, Digest, FederationId, NegotiationId};
use mercato_protocol::identity::{ClusterIdentity, Identity};
use mercato_protocol::negotiation::{Body, Message as Said, Request};
use mercato_protocol::price::{Price, UnitPrice};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::Slug;
use mercato_protocol::{contract::Terms, limits};

use super::tests::{driver_over, shares};
use super::*;
use crate::store::Disk;

/// Beyond it a record was once taken for a broken disk.
const ONCE_TOO_LARGE: usize = 32 * 1_024;

fn driver(dir: &Path) -> Driver {
    let disk = Disk::open(&dir.join("records")).unwrap();
    driver_over(dir, Box::new(disk))
}

/// It goes on as if nothing had been, and what it kept is there after a restart.
async fn goes_on(mut driver: Driver, dir: &Path, kept: impl Fn(&Record) -> bool) -> usize {
    driver.settle().await;
    assert_eq!(driver.agent().degraded(), None);
    assert_eq!(shares(&mut driver, Approve::Auto).await, Some(Ok(Reply::Done)));
    assert_eq!(driver.agent().degraded(), None);
    drop(driver);
    let records = records::read(&Disk::open(&dir.join("records")).unwrap()).unwrap();
    let large = records.iter().find(|record| kept(record)).expect("it is kept");
    large.to_bytes().len()
}

fn slug(n: usize) -> Slug {
    format!("{n:0width$}", width = limits::SLUG_BYTES).parse().unwrap()
}

fn price(lines: usize) -> Price {
    let unit = UnitPrice { micros: u64::MAX, period_s: u32::MAX };
    let units = (0..lines).map(|n| (Resource::Gpu(slug(n)), unit)).collect();
    Price::Posted { currency: "EUR".parse().unwrap(), units }
}

/// The header of an advertisement, as large as it may be.
fn header(by: &KeyPair, provider: ClusterId, now: Now, salt: u8) -> Signed<AdHeader> {
    let row = |n: usize, lines| PoolRow {
        pool: slug(n),
        free: Resources { cpu_millis: 1, ..Resources::default() },
        price: price(lines),
    };
    let mut header = AdHeader {
        provider,
        epoch: 1,
        seq: 1,
        body: Digest([salt; 32]),
        issued_ms: now.wall_ms,
        ttl_s: 900,
        rows: Vec::new(),
    };
    for lines in [limits::PRICE_LINES, 1] {
        while header.rows.len() < limits::POOLS {
            header.rows.push(row(header.rows.len(), lines));
            if header.encoded_len() > limits::AD_HEADER_BYTES {
                header.rows.pop();
                break;
            }
        }
    }
    by.sign(FederationId::lan(), &header).unwrap()
}

fn hears(driver: &mut Driver, from: &KeyPair, publication: Publication) {
    // What comes unasked may be as good as announced: then it is asked for, and comes again.
    for _ in 0..2 {
        let publications = vec![publication.clone()];
        let message = Gossip::Push { publications, bodies: vec![] };
        let message = Opened::open(message, FederationId::lan(), driver.now());
        driver.feed(Input::Gossip { peer: from.public(), message });
    }
}

fn connects(driver: &mut Driver, key: &KeyPair) -> ClusterIdentity {
    let identity = Identity::found(key, "stranger", driver.now()).unwrap();
    let peer = identity.open_identity(driver.now()).unwrap();
    driver.feed(Input::Connected { peer: peer.clone(), dialled: false });
    peer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_pushes_the_largest_proof_of_a_fraud() {
    let dir = tempfile::tempdir().unwrap();
    let (mut driver, key) = (driver(dir.path()), KeyPair::from_seed(&[7; 32]));
    let peer = connects(&mut driver, &key);
    let word = |salt| Word::Header(header(&key, peer.cluster_id(), driver.now(), salt));
    let proof = Equivocation { one: word(1), other: word(2) };
    hears(&mut driver, &key, Publication::Equivocation(proof));
    let is_it = |record: &Record| matches!(record, Record::Federation(FederationRecord::Fraud(..)));
    let size = goes_on(driver, dir.path(), is_it).await;
    assert!(size > ONCE_TOO_LARGE, "{size}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registrar_publishes_the_longest_list() {
    let dir = tempfile::tempdir().unwrap();
    let (mut driver, key) = (driver(dir.path()), KeyPair::from_seed(&[8; 32]));
    connects(&mut driver, &key);
    let root = Root::found(&key, "alps".parse().unwrap(), driver.now()).unwrap();
    let federation = root.federation_id();
    let papers = Papers::of_domain(root, "alps.test".to_owned());
    driver.feed(Input::Federation(FederationInput::Ask(1, Ask::Enter(Box::new(papers)))));
    let issued_ms = driver.now().wall_ms;
    let mut list = RevocationList {
        number: 1,
        issued_ms,
        next_update_ms: issued_ms + limits::REVOCATIONS_MS,
        serials: Vec::new(),
    };
    let serials = u64::MAX - limits::LIST_ITEMS as u64;
    list.serials = (0..limits::LIST_ITEMS as u64).map(|n| serials + n).collect();
    let list = key.sign(federation, &list).unwrap();
    hears(&mut driver, &key, Publication::Revocations { federation, list });
    let is_it =
        |record: &Record| matches!(record, Record::Federation(FederationRecord::Revocations(..)));
    let size = goes_on(driver, dir.path(), is_it).await;
    assert!(size > ONCE_TOO_LARGE, "{size}");
}

/// It is refused, and remembered so that it gets the same answer again.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_asks_for_something_at_the_longest_price() {
    let dir = tempfile::tempdir().unwrap();
    let (mut driver, key) = (driver(dir.path()), KeyPair::from_seed(&[9; 32]));
    let peer = connects(&mut driver, &key);
    let gpus = (0..limits::GPU_MODELS).map(|n| (slug(n), u64::MAX)).collect();
    let quantity = Resources { cpu_millis: 1, gpus, ..Resources::default() };
    let terms = Terms { price: price(limits::PRICE_LINES), quantity, ..plain_terms() };
    let note = "x".repeat(limits::TEXT_BYTES);
    let request = Request { ad: Digest([1; 32]), terms, note };
    let id = NegotiationId([9; 16]);
    let message = Said {
        negotiation: id,
        from: peer.cluster_id(),
        to: driver.config.cluster(),
        seq: 0,
        previous: None,
        body: Body::Request(request),
    };
    let message = key.sign(FederationId::lan(), &message).unwrap();
    let known = BTreeMap::from([(key.public(), peer.cluster_id())]);
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Known(&known) };
    let message = message.open(trust, driver.now()).unwrap();
    driver.feed(Input::Broker(BrokerInput::Message(Box::new(message))));
    let is_it = |record: &Record| matches!(record, Record::Broker(mercato_broker::Record::Deal(deal)) if deal.id() == id);
    goes_on(driver, dir.path(), is_it).await;
}

fn plain_terms() -> Terms {
    use mercato_protocol::terms::{Class, Isolation, NetworkIsolation, OnDisconnect, Platform};
    Terms {
        pool: slug(0),
        platform: Platform { arch: slug(0), os: slug(0) },
        quantity: Resources::default(),
        class: Class::Reserved,
        price: Price::Free,
        term_s: 3_600,
        isolation: Isolation::Runc,
        network_isolation: NetworkIsolation::None,
        pod_security: mercato_protocol::terms::PodSecurity::Baseline,
        transit_hops: 0,
        on_disconnect: OnDisconnect::Keep,
        reclaim_notice_s: 0,
        sla: None,
        metering_interval_s: 300,
        dispute_tolerance_ppm: 0,
        egress: mercato_protocol::egress::Egress::None,
    }
}

/// Nothing that the limits allow gets there; should anything, it is refused, and what others
/// asked for at the same time is done.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_kept_is_refused_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = driver(dir.path());
    let policy = |approve| mercato_config::Share { approve, ..Default::default() };
    let (reply, before) = oneshot::channel();
    let share = Command::Share(Some(policy(Approve::Auto).policy()));
    driver.take(Message::Command(share, reply));
    let (reply, refused) = oneshot::channel();
    driver.replies.insert(1_000, reply);
    let (reply, refused_too) = oneshot::channel();
    driver.askers.insert(1_001, reply);
    let (reply, waits) = oneshot::channel();
    driver.askers.insert(1_002, reply);
    let leases = LeasesAhead::These(BTreeSet::new());
    let ahead = Ahead { why: TooLarge { bytes: RECORD_BYTES + 1 }, leases };
    driver.refuse(Some(1_000), ahead.clone());
    driver.refuse(Some(1_001), ahead);
    driver.settle().await;
    assert_eq!(before.await.unwrap(), Ok(Reply::Done), "what came before it is done");
    assert_eq!(refused.await.unwrap(), Err(Refusal::TooLarge(RECORD_BYTES + 1)));
    let too_large = Answer::Refused(FederationRefusal::TooLarge(RECORD_BYTES + 1));
    assert_eq!(refused_too.await.unwrap(), too_large);
    let interrupted = Answer::Refused(FederationRefusal::Interrupted);
    assert_eq!(waits.await.unwrap(), interrupted, "the daemon is not stopping");
    assert_eq!(driver.agent().degraded(), None);
    let approve = |driver: &Driver| driver.agent().broker().share().unwrap().approve;
    assert_eq!(approve(&driver), Approve::Auto);
    assert_eq!(shares(&mut driver, Approve::Ask).await, Some(Ok(Reply::Done)));
    assert_eq!(approve(&driver), Approve::Ask);
}
