//! A provider that is asked, and answers with more than a contract may hold: that answer is
//! refused, and nothing else comes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mercato_broker::{Broker, Command, Config, Effect, Input, Inventory, PoolInventory};
use mercato_net::{Event, Limits, Net, NetConfig};
use mercato_protocol::codec::{CodecError, Message as _, Reader, Wire, Writer};
use mercato_protocol::contract::{Contract, Party};
use mercato_protocol::envelope::{KeyPair, Payload, Signed, Signers, Trust};
use mercato_protocol::first_frame::FirstFrame;
use mercato_protocol::gossip::{Mark, Message as Gossip, Publication};
use mercato_protocol::hello::Hello;
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::identity::Identity;
use mercato_protocol::limits;
use mercato_protocol::negotiation::{Body, Message};
use mercato_protocol::price::{Price, UnitPrice};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::Platform;
use tokio::runtime::Runtime;

use crate::hostile::now;
use crate::kit::{Daemon, done};
use crate::market::{DEMAND, wait_for_state};

#[test]
fn an_answer_that_no_contract_can_hold_is_refused_alone() {
    let turin = Daemon::start("turin", &[]);
    let all = ["share", "set", "--cpu", "100%", "--memory", "100%", "--approve", "auto"];
    done(&turin, &[&all[..], &["--price", "cpu=0.60 EUR/h"]].concat());
    let rome = Daemon::start("rome", &[&turin.address()]);
    let liars = LIARS.map(|liar| Provider::meet(&rome.address(), liar));
    rome.wait_for(&["browse", "-o", "json"], |offers| {
        offers["offers"].as_array().is_some_and(|offers| offers.len() == 1 + LIARS.len())
    });
    for name in ["turin", "oslo", "bergen"] {
        done(&rome, &["peer", "trust", name, "--yes"]);
    }
    let round = rome.json(&[&["rfq"], &DEMAND[..], &["1h", "-o", "json"]].concat());
    let offers = round["offers"].as_array().unwrap();
    assert_eq!(offers.len(), 1 + LIARS.len(), "{round:#}");
    for offer in offers {
        let expected = if offer["peerName"] == "turin" { "offered" } else { "terminated" };
        assert_eq!(offer["state"], expected, "{round:#}");
    }
    for liar in &liars {
        assert_eq!(liar.answered(), 1, "each was asked");
    }
    let taken = offers.iter().find(|offer| offer["peerName"] == "turin").unwrap();
    let taken = taken["id"].as_str().unwrap();
    done(&rome, &["order", "--offer", taken]);
    wait_for_state(&rome, taken, "active");
    let events = done(&rome, &["events", "-o", "json"]);
    assert!(!events.contains("records_read_only") && !events.contains("too_large"), "{events}");
    [rome, turin].into_iter().for_each(Daemon::stop);
}

/// A provider that answers with more lines in the price than was asked for.
#[derive(Clone, Copy)]
struct Liar {
    name: &'static str,
    lines: usize,
}

/// As many lines as fit a message, and as many as fit the bytes of a contract.
const LIARS: [Liar; 2] = [Liar { name: "oslo", lines: 950 }, Liar { name: "bergen", lines: 600 }];

/// A cluster that sells, by a broker of our own, and says what no daemon would.
struct Provider {
    _runtime: Runtime,
    /// How many answers it gave.
    answers: Arc<AtomicUsize>,
}

/// A contract that nobody has looked at.
struct Unchecked(Contract);

impl Wire for Unchecked {
    fn encode(&self, to: &mut Writer) {
        self.0.encode(to);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        Contract::decode(from).map(Self)
    }
}

impl mercato_protocol::codec::Message for Unchecked {
    const MAX_BYTES: usize = limits::NEGOTIATION_BYTES;
}

impl Payload for Unchecked {
    const TYPE: &'static str = Contract::TYPE;

    fn may_sign(&self, _: &PublicKey, _: Option<ClusterId>) -> bool {
        true
    }
}

impl Provider {
    fn meet(address: &str, liar: Liar) -> Self {
        let runtime = Runtime::new().unwrap();
        let _in = runtime.enter();
        let seed = [u8::try_from(liar.name.len()).unwrap(); 32];
        let key = Arc::new(KeyPair::from_seed(&seed));
        let identity = Identity::found(&key, liar.name, now()).unwrap();
        let (net, mut events) =
            Net::start(NetConfig::new(seed, Vec::new(), Limits::default())).unwrap();
        let hello = Hello {
            identity: identity.clone(),
            federation: FederationId::lan(),
            software: format!("{}/1", liar.name),
            addresses: Vec::new(),
            rotations: Vec::new(),
            certificates: Vec::new(),
            time_ms: None,
        };
        let said = Bytes::from(hello.to_bytes().unwrap());
        let hello = Bytes::from(FirstFrame::Hello(hello).to_bytes().unwrap());
        let (header, body) = published(Config::new(key.clone(), identity.clone()));
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
        let opened = header.open(trust, now()).unwrap();
        let (publisher, digest) = (key.public(), header.digest());
        let mark = Mark { publisher, epoch: opened.epoch, seq: opened.seq, digest };
        let push =
            Gossip::Push { publications: vec![Publication::Header(header)], bodies: vec![body] };
        let push = Bytes::from(push.to_bytes().unwrap());
        let answers = Arc::new(AtomicUsize::new(0));
        let (speaker, counted) = (net.clone(), answers.clone());
        let us = (key, identity.cluster_id());
        runtime.spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    Event::Request { peer, request, responder, .. } => {
                        let Ok(FirstFrame::Negotiation(signed)) = FirstFrame::from_bytes(&request)
                        else {
                            responder.respond(said.clone());
                            continue;
                        };
                        responder.respond(Bytes::new());
                        let Some((_, word)) = signed.claims() else { continue };
                        if matches!(word.body, Body::Rfq(_)) {
                            let (us, speaker) = (us.clone(), speaker.clone());
                            counted.fetch_add(1, Ordering::SeqCst);
                            tokio::spawn(answer(us, speaker, peer, signed, liar.lines));
                        }
                    }
                    Event::Gossip { peer, frame, .. } => {
                        if let Ok(Gossip::Pull { .. }) = Gossip::from_bytes(&frame) {
                            let _ = speaker.send_gossip(peer, push.clone());
                        }
                    }
                    _ => {}
                }
            }
        });
        runtime.block_on(async {
            let victim = net.dial(None, vec![address.parse().unwrap()]).await.unwrap();
            net.request(victim, hello).await.unwrap();
            let announce = Gossip::Announce { marks: vec![mark] };
            net.send_gossip(victim, Bytes::from(announce.to_bytes().unwrap())).unwrap();
        });
        drop(_in);
        Self { _runtime: runtime, answers }
    }

    fn answered(&self) -> usize {
        self.answers.load(Ordering::SeqCst)
    }
}

/// What a broker of this cluster offers.
fn published(
    config: Config,
) -> (Signed<mercato_protocol::ad::AdHeader>, mercato_protocol::text::Blob) {
    let all =
        Resources { cpu_millis: 16_000, memory_bytes: 64 << 30, pods: 110, ..Resources::default() };
    let inventory = Inventory {
        pools: vec![PoolInventory {
            id: "amd64".parse().unwrap(),
            platform: Platform { arch: "amd64".parse().unwrap(), os: "linux".parse().unwrap() },
            allocatable: all.clone(),
            requested: Resources::default(),
            largest_pod: all,
            gpus: vec![],
        }],
        ..Inventory::default()
    };
    let share = serde_json::json!({ "cpu": "50%", "memory": "50%", "price": "cpu=0.70 EUR/h" });
    let share: mercato_config::Share = serde_json::from_value(share).unwrap();
    let mut broker = Broker::restore(config, 7, []);
    let mut effects =
        broker.handle(now(), Input::Command(0, Box::new(Command::Share(Some(share.policy())))));
    for input in [Input::Isolation(true), Input::Inventory(inventory)] {
        effects.extend(broker.handle(now(), input));
    }
    let publication = effects.into_iter().find_map(|effect| match effect {
        Effect::Publish { header, body } => Some((header, body)),
        _ => None,
    });
    publication.unwrap()
}

/// Answers a question with a price of so many lines.
async fn answer(
    (key, us): (Arc<KeyPair>, ClusterId),
    net: Net,
    peer: PublicKey,
    question: Signed<Message>,
    lines: usize,
) {
    let lan = FederationId::lan();
    let known = question.claims().map(|(key, word)| (key, word.from)).into_iter().collect();
    let trust = Trust { federation: lan, signers: Signers::Known(&known) };
    let question = question.open(trust, now()).unwrap();
    let Body::Rfq(request) = &question.body else { return };
    let mut terms = request.terms.clone();
    let Price::Posted { units, .. } = &mut terms.price else { panic!("it has a price") };
    let unit = UnitPrice { micros: 1, period_s: 1 };
    let model = |n: usize| Resource::Gpu(format!("m{n}").parse().unwrap());
    units.extend((1..lines).map(|n| (model(n), unit)));
    let party = |cluster, key| Party { cluster, key, certificate: None };
    let not_before_ms = now().wall_ms;
    let contract = Contract {
        id: question.negotiation.into(),
        provider: party(us, key.public()),
        consumer: party(question.from, peer),
        ad: request.ad,
        not_before_ms,
        not_after_ms: not_before_ms + terms.term_s * 1_000,
        commit_by_ms: not_before_ms + 30_000,
        terms,
        amends: None,
    };
    let contract = key.sign(lan, &Unchecked(contract)).unwrap();
    let contract = Signed::from_bytes(contract.as_bytes().to_vec());
    let message = Message {
        negotiation: question.negotiation,
        from: us,
        to: question.from,
        seq: 0,
        previous: Some(question.digest()),
        body: Body::Offer { contract },
    };
    let message = key.sign(lan, &message).unwrap();
    let request = FirstFrame::Negotiation(message).to_bytes().unwrap();
    let said = net.request(peer, Bytes::from(request));
    // What is refused is not answered.
    let _ = tokio::time::timeout(Duration::from_secs(10), said).await;
}
