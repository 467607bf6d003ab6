//! Sessions whose other side, or whose API server, says more than it should.

use std::collections::VecDeque;

use mercato_offload::channel::Channel;
use mercato_offload::guest::{self, GuestSession};
use mercato_offload::home::{self, HomeSession};
use mercato_offload::key::{Item, ObjectKind, PodId, Uid, key};
use mercato_offload::limits;
use mercato_offload::message::{Refusal, Route, ToGuest, ToHome};
use mercato_protocol::codec::Message as _;
use mercato_protocol::id::{ClusterId, Digest};
use mercato_protocol::time::Now;
use mercato_protocol::workload::Message;

const NOW: Now = Now { mono_ms: 1_000, wall_ms: 1_000 };
const HOME: ClusterId = ClusterId([1; 32]);
const PROVIDER: ClusterId = ClusterId([2; 32]);

fn pod(uid: &str, name: &str) -> PodId {
    let (namespace, name) = ("shop".to_owned(), name.to_owned());
    PodId { uid: Uid(uid.to_owned()), namespace, name }
}

fn refusal() -> Refusal {
    Refusal { path: String::new(), reason: "because".to_owned() }
}

/// A home session, and a provider that may say anything.
struct Lied {
    home: HomeSession,
    provider: Channel<ToHome>,
    effects: Vec<home::Effect>,
}

impl Lied {
    fn to() -> Self {
        let config = home::Config { cluster: HOME, provider: PROVIDER, hops: 0 };
        let home = HomeSession::restore(config, []);
        let mut this = Self { home, provider: Channel::new(0), effects: Vec::new() };
        let (_, greeting) = this.provider.link_up(NOW.mono_ms);
        this.takes(home::Input::Synced(vec![home::HomePod {
            pod: pod("u1", "web"),
            digest: Digest::of(b"web"),
            needs: vec![key(ObjectKind::Secret, "shop", "keys")],
            deletion_grace_s: None,
            terminal: false,
            gates: Vec::new(),
            route: None,
            refusal: None,
        }]));
        this.takes(home::Input::LinkUp);
        this.takes(home::Input::Frame(greeting));
        assert!(this.provider.has_room());
        this.effects.clear();
        this
    }

    fn takes(&mut self, input: home::Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for effect in self.home.handle(NOW, input) {
                let home::Effect::Send(frame) = effect else {
                    self.effects.push(effect);
                    continue;
                };
                let mut answers = Vec::new();
                self.provider.receive(NOW.mono_ms, frame, &mut answers);
                inputs.extend(answers.into_iter().map(home::Input::Frame));
            }
        }
    }

    fn says(&mut self, statements: Vec<ToHome>) {
        let frame = self.provider.send(NOW.mono_ms, statements);
        self.takes(home::Input::Frame(frame));
    }
}

#[test]
fn what_was_never_sent_cannot_be_refused() {
    let mut lied = Lied::to();
    let secret = |name: &str| Item::Object(key(ObjectKind::Secret, "shop", name));
    let theirs = Item::Object(key(ObjectKind::Secret, "kube-system", "keys"));
    for item in
        [theirs, secret("others"), Item::Pod(pod("u1", "another")), Item::Pod(pod("u2", "x"))]
    {
        lied.says(vec![ToHome::Refused { item: item.clone(), refusal: refusal() }]);
        lied.says(vec![ToHome::Missing(item)]);
        assert_eq!(lied.effects, []);
    }
    assert!(!format!("{:?}", lied.home).contains("another"), "{:?}", lied.home);
    lied.says(vec![ToHome::Refused { item: secret("keys"), refusal: refusal() }]);
    let told = home::Effect::ObjectRefused(key(ObjectKind::Secret, "shop", "keys"), refusal());
    assert_eq!(lied.effects, [told]);
}

#[test]
fn a_list_without_end_is_not_kept() {
    let mut lied = Lied::to();
    let have = |name: String| {
        let item = Item::Object(key(ObjectKind::Secret, "shop", &name));
        ToHome::Have { item, digest: None, report: None }
    };
    for n in 0..limits::OBJECTS / 64 {
        lied.says((0..64).map(|m| have(format!("s{n}-{m}"))).collect());
    }
    lied.says(vec![have("beyond".to_owned())]);
    assert!(!format!("{:?}", lied.home).contains("beyond"));
}

#[test]
fn words_that_are_too_long_for_a_message_are_clipped() {
    let config = guest::Config { cluster: PROVIDER, consumer: HOME, transit: false };
    let mut session = GuestSession::restore(config, []);
    session.handle(NOW, guest::Input::Synced(Vec::new()));
    session.handle(NOW, guest::Input::LinkUp);
    let mut home: Channel<ToGuest> = Channel::new(0);
    let mut frames = VecDeque::from([home.link_up(NOW.mono_ms).1]);
    while let Some(frame) = frames.pop_front() {
        for effect in session.handle(NOW, guest::Input::Frame(frame)) {
            let guest::Effect::Send(frame) = effect else { continue };
            let mut answers = Vec::new();
            home.receive(NOW.mono_ms, frame, &mut answers);
            frames.extend(answers);
        }
    }
    let (item, digest) = (Item::Pod(pod("u1", "web")), Digest::of(b"web"));
    let route = Route { origin: HOME, path: vec![HOME], hops: 0 };
    let put = home.send(NOW.mono_ms, vec![ToGuest::Put { item: item.clone(), digest, route }]);
    session.handle(NOW, guest::Input::Frame(put));
    let long = "é".repeat(2_000);
    let failure = guest::Failure::Refused(Refusal { path: long.clone(), reason: long });
    let mut refused = 0;
    for effect in session.handle(NOW, guest::Input::NotWritten(item, failure)) {
        let guest::Effect::Send(frame) = effect else { continue };
        let refuses = |one: &&ToHome| matches!(one, ToHome::Refused { .. });
        refused += frame.statements.iter().filter(refuses).count();
        Message::ToHome { frame, bodies: Vec::new() }.to_bytes().unwrap();
    }
    assert_eq!(refused, 1);
}
