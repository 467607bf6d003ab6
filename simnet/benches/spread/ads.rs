//! What everybody says, each of which is opened once for all.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use mercato_gossip::{Item, News, Open};
use mercato_protocol::ad::AdHeader;
use mercato_protocol::envelope::{EnvelopeError, KeyPair, Signers, Trust};
use mercato_protocol::gossip::{Publication, VerifiedPublication, Withdraw};
use mercato_protocol::id::{ClusterId, Digest, FederationId};
use mercato_protocol::text::Blob;
use mercato_protocol::time::Now;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

const WALL_MS: u64 = 1_700_000_000_000;
const BODY_BYTES: usize = 700;

pub(crate) fn now(at_ms: u64) -> Now {
    Now { mono_ms: at_ms, wall_ms: WALL_MS + at_ms }
}

/// Of everybody, in ascending order.
pub(crate) fn keys(size: usize) -> Vec<KeyPair> {
    let key = |n: usize| KeyPair::from_seed(&Digest::of(&n.to_be_bytes()).0);
    let mut keys: Vec<KeyPair> = (0..size).map(key).collect();
    keys.sort_by_key(KeyPair::public);
    keys
}

/// What everybody says.
pub(crate) struct Ads {
    keys: Vec<KeyPair>,
    rng: ChaCha12Rng,
    /// The latest of each, as far as they said something.
    pub(crate) latest: BTreeMap<usize, News>,
    /// Ads in all.
    pub(crate) said: usize,
}

impl Ads {
    pub(crate) fn new(size: usize) -> Self {
        let rng = ChaCha12Rng::seed_from_u64(7);
        Self { keys: keys(size), rng, latest: BTreeMap::new(), said: 0 }
    }

    /// With a body of its own.
    pub(crate) fn ad(&mut self, node: usize, seq: u64, at_ms: u64) -> News {
        let mut body = vec![0; BODY_BYTES];
        self.rng.fill_bytes(&mut body);
        self.say(node, seq, body, at_ms)
    }

    /// With the body of the last.
    pub(crate) fn renew(&mut self, node: usize, seq: u64, at_ms: u64) -> News {
        let body = self.latest[&node].body().unwrap().to_vec();
        self.say(node, seq, body, at_ms)
    }

    fn say(&mut self, node: usize, seq: u64, body: Vec<u8>, at_ms: u64) -> News {
        self.said += 1;
        let header = AdHeader {
            provider: ClusterId(self.keys[node].public().0),
            epoch: 1,
            seq,
            body: Digest::of(&body),
            issued_ms: now(at_ms).wall_ms,
            ttl_s: 900,
            rows: Vec::new(),
        };
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
        let header = self.keys[node].sign(FederationId::lan(), &header).unwrap();
        let header = header.open(trust, now(at_ms)).unwrap();
        let news = News::ad(header, Blob(body.into())).unwrap();
        self.latest.insert(node, news.clone());
        news
    }

    pub(crate) fn end(&mut self, node: usize, seq: u64, at_ms: u64) -> News {
        let provider = ClusterId(self.keys[node].public().0);
        let end = Withdraw { provider, epoch: 1, seq, issued_ms: now(at_ms).wall_ms };
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
        let end = self.keys[node].sign(FederationId::lan(), &end).unwrap();
        let end = end.open(trust, now(at_ms)).unwrap();
        News::plain(VerifiedPublication::Withdraw(end)).unwrap()
    }
}

/// Everything that was ever published, by where its bytes are: whoever passes it on
/// passes on these very bytes.
#[derive(Default)]
pub(crate) struct Known {
    items: HashMap<usize, Arc<Item>, BuildHasherDefault<Address>>,
    /// Keeps the bytes where they are.
    kept: Vec<News>,
}

/// Hashes an address.
#[derive(Default)]
struct Address(u64);

impl Hasher for Address {
    fn write(&mut self, _: &[u8]) {
        unreachable!("an address is one word");
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).swap_bytes();
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn place(publication: &Publication) -> usize {
    match publication {
        Publication::Header(header) => header.as_bytes().as_ptr() as usize,
        Publication::Withdraw(end) => end.as_bytes().as_ptr() as usize,
        Publication::Equivocation(_) | Publication::Revocations { .. } => panic!("none here"),
    }
}

impl Known {
    pub(crate) fn keep(&mut self, news: &News) {
        let publication = news.publication();
        let item = Item::new(publication.clone());
        self.items.insert(place(&publication.publication()), Arc::new(item));
        self.kept.push(news.clone());
    }
}

impl Open for Known {
    fn item(&mut self, publication: &Publication) -> Result<Arc<Item>, EnvelopeError> {
        Ok(Arc::clone(&self.items[&place(publication)]))
    }
}
