//! One session, and another side that may say anything to it.

use std::collections::VecDeque;

use mercato_offload::channel::Channel;
use mercato_offload::guest::{self, GuestSession};
use mercato_offload::home::{self, HomeSession};
use mercato_offload::key::{Item, ObjectKind, PodId, Uid, key};
use mercato_offload::message::{Refusal, Route, ToGuest, ToHome};
use mercato_protocol::codec::Message as _;
use mercato_protocol::id::{ClusterId, Digest};
use mercato_protocol::time::Now;
use mercato_protocol::workload::Message;

pub(crate) const NOW: Now = Now { mono_ms: 1_000, wall_ms: 1_000 };
pub(crate) const HOME: ClusterId = ClusterId([1; 32]);
pub(crate) const PROVIDER: ClusterId = ClusterId([2; 32]);

pub(crate) fn pod(uid: &str, name: &str) -> PodId {
    let (namespace, name) = ("shop".to_owned(), name.to_owned());
    PodId { uid: Uid(uid.to_owned()), namespace, name }
}

pub(crate) fn refusal() -> Refusal {
    Refusal { path: String::new(), reason: "because".to_owned() }
}

/// The one pod of a [`Lied`] home, which needs a secret.
pub(crate) fn at_home() -> home::HomePod {
    home::HomePod {
        pod: pod("u1", "web"),
        digest: Digest::of(b"web"),
        needs: vec![key(ObjectKind::Secret, "shop", "keys")],
        deletion_grace_s: None,
        terminal: false,
        counted: true,
        gates: Vec::new(),
        pod_ip: None,
        second_ip: None,
        route: None,
        place: None,
        patience_ms: 10_000,
        refusal: None,
        stand_in: home::StandIn::Never,
    }
}

/// A home session, and a provider that may say anything.
pub(crate) struct Lied {
    pub(crate) home: HomeSession,
    pub(crate) provider: Channel<ToHome>,
    pub(crate) effects: Vec<home::Effect>,
    /// What home has said.
    pub(crate) told: Vec<ToGuest>,
}

impl Lied {
    pub(crate) fn to() -> Self {
        let mut home = HomeSession::restore(Self::config(), []);
        home.handle(NOW, home::Input::Synced(vec![at_home()]));
        at_home().needs.into_iter().for_each(|key| {
            home.handle(NOW, home::Input::Object { key, digest: None });
        });
        Self::of(home)
    }

    pub(crate) fn config() -> home::Config {
        home::Config { cluster: HOME, provider: PROVIDER, hops: 0 }
    }

    /// Of a session that has had the list of pods; the link comes up.
    pub(crate) fn of(home: HomeSession) -> Self {
        let mut this =
            Self { home, provider: Channel::new(0), effects: Vec::new(), told: Vec::new() };
        let (_, greeting) = this.provider.link_up(NOW.mono_ms);
        this.takes(home::Input::LinkUp);
        this.takes(home::Input::Frame(greeting));
        assert!(this.provider.has_room());
        this.effects.clear();
        this
    }

    pub(crate) fn takes(&mut self, input: home::Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for effect in self.home.handle(NOW, input) {
                if let home::Effect::Carry(pod, address) = effect {
                    inputs.push(home::Input::Carried(pod, address, true));
                    continue;
                }
                // It is not there.
                if let home::Effect::Watch(key) = &effect {
                    inputs.push(home::Input::Object { key: key.clone(), digest: None });
                }
                let home::Effect::Send(frame) = effect else {
                    self.effects.push(effect);
                    continue;
                };
                let mut answers = Vec::new();
                let received = self.provider.receive(NOW.mono_ms, frame, &mut answers);
                self.told.extend(received.statements);
                inputs.extend(answers.into_iter().map(home::Input::Frame));
            }
        }
    }

    pub(crate) fn says(&mut self, statements: Vec<ToHome>) {
        let frame = self.provider.send(NOW.mono_ms, statements);
        self.takes(home::Input::Frame(frame));
    }
}

/// Home wants this.
pub(crate) fn put(item: Item) -> ToGuest {
    let route = Route { origin: HOME, path: vec![HOME], hops: 0 };
    ToGuest::Put { item, digest: Digest::of(b"web"), route, place: None }
}

/// A provider's session, and a home that tells it things.
pub(crate) struct Asked {
    pub(crate) session: GuestSession,
    pub(crate) home: Channel<ToGuest>,
}

impl Asked {
    pub(crate) fn of_provider() -> Self {
        Self::with(Vec::new(), true)
    }

    /// A session with these records, which has got the list of guests already or not: it is empty.
    pub(crate) fn with(records: Vec<guest::Record>, is_listed: bool) -> Self {
        let config = guest::Config { cluster: PROVIDER, consumer: HOME, transit: false };
        let mut session = GuestSession::restore(config, records);
        if is_listed {
            session.handle(NOW, guest::Input::Synced(Vec::new()));
        }
        session.handle(NOW, guest::Input::LinkUp);
        let mut this = Self { session, home: Channel::new(0) };
        let mut frames = VecDeque::from([this.home.link_up(NOW.mono_ms).1]);
        while let Some(frame) = frames.pop_front() {
            for effect in this.session.handle(NOW, guest::Input::Frame(frame)) {
                let guest::Effect::Send(frame) = effect else { continue };
                let mut answers = Vec::new();
                this.home.receive(NOW.mono_ms, frame, &mut answers);
                frames.extend(answers);
            }
        }
        this
    }

    /// What it wants done then.
    pub(crate) fn is_told(&mut self, statement: ToGuest) -> Vec<guest::Effect> {
        let frame = self.home.send(NOW.mono_ms, vec![statement]);
        self.does(guest::Input::Frame(frame))
    }

    /// What it wants done then, besides what it says.
    pub(crate) fn does(&mut self, input: guest::Input) -> Vec<guest::Effect> {
        let effects = self.session.handle(NOW, input).into_iter();
        effects.filter(|effect| !matches!(effect, guest::Effect::Send(_))).collect()
    }

    /// What home is told of it, all of which can be said.
    pub(crate) fn says(&mut self, input: guest::Input) -> Vec<ToHome> {
        let mut said = Vec::new();
        for effect in self.session.handle(NOW, input) {
            let guest::Effect::Send(frame) = effect else { continue };
            said.extend(frame.statements.clone());
            let bytes = Message::ToHome { frame, bodies: Vec::new() }.to_bytes();
            assert!(bytes.is_ok(), "{bytes:?}");
        }
        said
    }
}
