//! What is said in one's own name, but too much of it, or two things at once.

use mercato_agent::Effect;
use mercato_protocol::ad::{AdBody, AdHeader};
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::KeyPair;
use mercato_protocol::gossip::{Mark, Message, Publication, VerifiedPublication};
use mercato_protocol::id::Digest;
use mercato_protocol::identity::Identity;
use mercato_protocol::text::Blob;

use super::attack::{Attack, Scene, Stash};
use crate::engine::packet::Packet;
use crate::engine::rng::Rng;

/// Tells every other neighbour something else under the same number.
#[derive(Debug)]
pub(crate) struct Equivocator;

impl Equivocator {
    /// Another header of its own with the number of this one.
    fn twin(scene: &Scene<'_>, header: &Publication) -> Option<Publication> {
        let config = scene.config;
        let opened = header.open(config.federation, scene.now).ok()?;
        let VerifiedPublication::Header(header) = opened else { return None };
        if *header.key() != config.key.public() {
            return None;
        }
        let mut twin: AdHeader = header.into_value();
        twin.ttl_s -= 1;
        Some(Publication::Header(config.key.sign(config.federation, &twin).ok()?))
    }
}

impl Attack for Equivocator {
    fn pass(&mut self, scene: &mut Scene<'_>, mut effect: Effect) -> Vec<Effect> {
        if let Effect::Gossip { peer, message: Message::Push { publications, .. } } = &mut effect
            && peer.0[0].is_multiple_of(2)
        {
            for publication in publications {
                if let Some(twin) = Self::twin(scene, publication) {
                    *publication = twin;
                    scene.tried += 1;
                }
            }
        }
        vec![effect]
    }
}

/// New identities in a second.
const A_SECOND: usize = 50;
/// New identities in a whole run.
const IN_ALL: usize = 5_000;

/// Publishes under thousands of fresh keys.
#[derive(Debug)]
pub(crate) struct Flooder {
    rng: Rng,
    stash: Stash,
}

impl Flooder {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, stash: Stash::default() }
    }

    /// One more cluster that sells nothing worth having, at no price.
    fn identity(&mut self, scene: &Scene<'_>) -> Option<Mark> {
        let key = KeyPair::from_seed(&self.rng.seed());
        let identity = Identity::found(&key, "nobody", scene.now).ok()?;
        let body = AdBody { identity: identity.clone(), ..empty_body(scene)? };
        let body = body.to_bytes().ok()?;
        let header = AdHeader {
            provider: identity.cluster_id(),
            epoch: 1,
            seq: 1,
            body: Digest::of(&body),
            issued_ms: scene.now.wall_ms,
            ttl_s: 900,
            rows: Vec::new(),
        };
        let header = key.sign(scene.config.federation, &header).ok()?;
        let mark = Mark { publisher: key.public(), epoch: 1, seq: 1, digest: header.digest() };
        self.stash.keep(mark.publisher, Publication::Header(header), Some(Blob(body.into())));
        Some(mark)
    }
}

/// The body of an advertisement without pools.
fn empty_body(scene: &Scene<'_>) -> Option<AdBody> {
    use mercato_protocol::ad::OfferTerms;
    use mercato_protocol::terms::{Class, Isolation, NetworkIsolation, PodSecurity};
    Some(AdBody {
        identity: scene.config.identity.clone(),
        jurisdiction: None,
        region: None,
        attributes: Vec::new(),
        carbon_g_per_kwh: None,
        addresses: Vec::new(),
        storage_classes: Vec::new(),
        services: Vec::new(),
        isolation: vec![Isolation::Runc],
        network_isolation: NetworkIsolation::None,
        pod_security: PodSecurity::Baseline,
        pools: Vec::new(),
        rotations: Vec::new(),
        certificates: Vec::new(),
        egress: None,
        terms: OfferTerms {
            classes: vec![Class::Reserved],
            min_term_s: 60,
            max_term_s: 86_400,
            reclaim_notice_s: 120,
            metering_interval_s: 300,
        },
    })
}

impl Attack for Flooder {
    fn hear(&mut self, scene: &mut Scene<'_>, from: usize, packet: &Packet) {
        self.stash.serve(scene, from, packet);
    }

    fn act(&mut self, scene: &mut Scene<'_>) {
        if self.stash.len() >= IN_ALL {
            return;
        }
        let marks: Vec<Mark> = (0..A_SECOND).filter_map(|_| self.identity(scene)).collect();
        scene.tried += marks.len() as u64;
        scene.spread(&marks, &[]);
    }
}
