//! One lease in this cluster: its offload session, and how it is to be. Which leases
//! there are is told by the broker; what the session does is offload's.

mod away;
mod ends;
mod namespaces;
mod perform;
mod ranges;
mod reached;
mod removals;
pub(crate) mod table;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mercato_broker::{Desired, LeaseSpec, Side};
use mercato_offload::guest::{self, GuestSession};
use mercato_offload::home::{self, HomeSession};
use mercato_offload::key::Item;
use mercato_protocol::contract::Party;
use mercato_protocol::id::{ContractId, PublicKey};
use mercato_protocol::time::{Deadline, Now};

use away::Away;
use ends::ends;
use reached::Reached;
use removals::MayGo;

use crate::context::Turn;
use crate::effect::{Effect, LeaseDesire, Phase};
use crate::limits;
use crate::record::{Change, Record, RecordKey};
use crate::request::Request;

#[derive(Debug)]
pub(crate) struct Lease {
    spec: LeaseSpec,
    /// The key that speaks for the other side now.
    key: PublicKey,
    session: Session,
    /// Provider: guest namespaces by home namespace.
    namespaces: BTreeMap<String, String>,
    /// Names that home has asked for, or none in particular, where there is another or none
    /// yet, by home namespace.
    unmet: BTreeMap<String, Option<String>>,
    /// Home namespaces of what home has said last.
    heard: BTreeSet<String>,
    /// When a guest namespace last got another name, monotonic.
    moved_ms: Option<u64>,
    /// How many guest namespaces may be given up.
    may_go: MayGo,
    /// Home namespaces of which nothing was here at the last look.
    empty: BTreeSet<String>,
    /// When that is looked at next, monotonic.
    look_ms: Option<u64>,
    /// The link to the other side is up.
    linked: bool,
    reach: Reached,
    /// What is kept of it, to be erased with it.
    kept: BTreeSet<RecordKey>,
    away: Away,
    /// The last that was wanted of the cluster.
    said: Option<LeaseDesire>,
    /// Provider: answers to what the session asked of the cluster since nothing is to be left
    /// there. They are true, and given, once nothing is.
    answers: Vec<guest::Input>,
    /// Until when the session lives on once nothing of the lease is left, monotonic.
    ends_ms: Option<u64>,
    /// Until when it then says again what nobody answers, monotonic.
    quiet_ms: Option<u64>,
}

#[derive(Debug)]
enum Session {
    Home(HomeSession),
    Guest(GuestSession),
    /// The records cannot be written: pods are left as they are.
    Resting,
}

impl Lease {
    /// As its records have it.
    fn restore(spec: LeaseSpec, records: Vec<Record>, rests: bool) -> Self {
        let kept = records.iter().map(Record::key).collect();
        let (mut at_home, mut guests, mut namespaces) = (Vec::new(), Vec::new(), BTreeMap::new());
        for record in records {
            match record {
                Record::Home(_, record) => at_home.push(record),
                Record::Guest(_, record) => guests.push(record),
                Record::Namespaces(_, map) => namespaces = map,
                Record::Broker(_) | Record::Federation(_) | Record::Key(..) | Record::Range(..) => {
                }
            }
        }
        let (contract, terms) = (&spec.contract, &spec.contract.terms);
        let (provider, consumer) = (contract.provider.cluster, contract.consumer.cluster);
        let session = match spec.side {
            _ if rests => Session::Resting,
            Side::Consumer => {
                let config = home::Config { cluster: consumer, provider, hops: terms.transit_hops };
                Session::Home(HomeSession::restore(config, at_home))
            }
            Side::Provider => {
                let transit = terms.transit_hops > 0;
                let config = guest::Config { cluster: provider, consumer, transit };
                Session::Guest(GuestSession::restore(config, guests))
            }
        };
        let key = other_side(&spec).key;
        Self {
            spec,
            key,
            session,
            namespaces,
            unmet: BTreeMap::new(),
            heard: BTreeSet::new(),
            moved_ms: None,
            may_go: MayGo::default(),
            empty: BTreeSet::new(),
            look_ms: None,
            linked: false,
            reach: Reached::default(),
            kept,
            away: Away::default(),
            said: None,
            answers: Vec::new(),
            ends_ms: None,
            quiet_ms: None,
        }
    }

    fn id(&self) -> ContractId {
        self.spec.contract.id
    }

    /// The party on the other side of the contract.
    pub(crate) fn peer(&self) -> &Party {
        other_side(&self.spec)
    }

    /// Pods of it, here or elsewhere.
    fn pods(&self) -> usize {
        match &self.session {
            Session::Home(session) => session.pods(),
            Session::Guest(session) => session.pods(),
            Session::Resting => 0,
        }
    }

    /// Whether anything of this home namespace is known.
    fn mentions(&self, namespace: &str) -> bool {
        match &self.session {
            Session::Guest(session) => session.mentions(namespace),
            Session::Home(_) | Session::Resting => true,
        }
    }

    /// Whether anything of this home namespace is, or may be, in the cluster.
    fn holds(&self, namespace: &str) -> bool {
        match &self.session {
            Session::Guest(session) => session.holds(namespace),
            Session::Home(_) | Session::Resting => true,
        }
    }

    /// Home namespaces of which anything is known; none while that itself is not.
    fn mentioned(&self) -> Option<BTreeSet<&str>> {
        match &self.session {
            Session::Guest(session) => session.namespaces(),
            Session::Home(_) | Session::Resting => None,
        }
    }

    fn rests(&self) -> bool {
        matches!(self.session, Session::Resting)
    }

    fn wakeup(&self) -> Option<Deadline> {
        let session = match &self.session {
            Session::Home(session) => session.wakeup(),
            Session::Guest(session) => session.wakeup(),
            Session::Resting => None,
        };
        // Sessions have no deadlines but monotonic ones, as have the afterlife and the look at
        // namespaces.
        let quiet = self.quiet_ms.map(Deadline::Mono);
        let session = session.filter(|deadline| quiet.is_none_or(|quiet| *deadline <= quiet));
        // Of one that is gone nobody is told how it is.
        let away_ms = self.away.deadline_ms().filter(|_| self.spec.desired != Desired::Gone);
        let looks = [self.ends_ms, self.look_ms, away_ms].into_iter().flatten().map(Deadline::Mono);
        session.into_iter().chain(looks).min()
    }

    /// Nothing of it is left in the cluster. The provider's session lives on to tell home
    /// how its pods ended, for as long as home has not taken it.
    fn retire(&mut self, now: Now, out: &mut Vec<Request>) {
        if self.ends_ms.is_none() {
            self.ends_ms = Some(now.mono_ms + limits::AFTERLIFE_MS);
            self.quiet_ms = Some(now.mono_ms + limits::AFTERLIFE_SPEAKS_MS);
            let answers = std::mem::take(&mut self.answers);
            let inputs = [guest::Input::Close].into_iter().chain(answers);
            for input in inputs.chain([guest::Input::Synced(Vec::new())]) {
                self.handle_guest(now, input, out);
            }
        }
    }

    /// Whether the cluster was told that nothing of the lease is to be left in it. That is never
    /// taken back: it may have been done by now.
    fn is_ended(&self) -> bool {
        self.said.as_ref().is_some_and(|said| said.phase == Phase::Ended)
    }

    /// Whether nothing of it is left in the cluster.
    pub(crate) fn is_retired(&self) -> bool {
        self.ends_ms.is_some()
    }

    /// Whether it is over and nobody waits for its word: at home at once; at the provider
    /// after some time, since home may hold pods that never came there, and asks after them.
    fn is_done(&self, now: Now) -> bool {
        let at_home = self.spec.side == Side::Consumer;
        self.ends_ms.is_some_and(|ends_ms| at_home || ends_ms <= now.mono_ms)
    }

    /// The link to the other side has come up, or gone.
    fn link(&mut self, now: Now, up: bool, out: &mut Vec<Request>) {
        let (at_home, guest) = match up {
            true => (home::Input::LinkUp, guest::Input::LinkUp),
            false => (home::Input::LinkDown, guest::Input::LinkDown),
        };
        self.linked = up;
        if up && self.is_retired() {
            self.quiet_ms = Some(now.mono_ms + limits::AFTERLIFE_SPEAKS_MS);
        }
        self.empty.clear();
        self.handle_home(now, at_home, out);
        self.handle_guest(now, guest, out);
    }

    /// Whether the time alone can change anything of it, now.
    fn is_to_wake(&self, now: Now) -> bool {
        let drains = matches!(self.spec.desired, Desired::Drained | Desired::Gone);
        drains || self.is_to_name() || self.wakeup().is_some_and(|deadline| deadline.is_due(now))
    }

    fn wake(&mut self, now: Now, out: &mut Vec<Request>) {
        if self.wakeup().is_some_and(|deadline| deadline.is_due(now)) {
            self.handle_home(now, home::Input::Wake, out);
            self.handle_guest(now, guest::Input::Wake, out);
        }
        self.give_up_empty(now, out);
    }

    /// For a session at home; nothing otherwise.
    fn handle_home(&mut self, now: Now, input: home::Input, out: &mut Vec<Request>) {
        let Session::Home(session) = &mut self.session else { return };
        let effects = session.handle(now, input);
        out.extend(effects.into_iter().map(|effect| Request::from(self.at_home(effect))));
    }

    /// For a session at the provider; nothing otherwise.
    fn handle_guest(&mut self, now: Now, input: guest::Input, out: &mut Vec<Request>) {
        // The time alone makes no namespace empty.
        if input != guest::Input::Wake {
            self.look_later(now);
        }
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let Session::Guest(session) = &mut self.session else { return };
            for effect in session.handle(now, input) {
                // Nobody asks the API server once nothing is left there, or is to be.
                match nothing_there(&effect) {
                    Some(answer) if self.is_retired() => inputs.push_back(answer),
                    Some(answer) if self.is_ended() => self.answers.push(answer),
                    Some(_) | None => out.push(self.at_provider(effect).into()),
                }
            }
        }
    }

    /// Says how the lease is to be in the cluster, if that is not what was said last, as long as
    /// anything of it is left.
    fn reconcile(&mut self, turn: &mut Turn<'_>) {
        if self.spec.desired == Desired::Gone {
            return;
        }
        let owner = turn.context.peers.connected().get(&self.key);
        let (is_lost, silent_ms) = match &self.session {
            Session::Home(session) => (session.is_lost(), session.silent_ms(turn.now)),
            Session::Guest(_) | Session::Resting => (false, 0),
        };
        let reachable = owner.is_some() && !is_lost && !self.away.is_over(turn.now);
        let away_since_ms = self.away.note(turn.now, reachable, silent_ms);
        let name = owner.map(|owner| owner.name.clone());
        let phase = match self.spec.desired {
            Desired::Open => Phase::Open,
            Desired::Suspended => Phase::Suspended,
            Desired::Drained | Desired::Gone if self.rests() => Phase::Suspended,
            Desired::Drained | Desired::Gone => self.drain(turn.now, &mut turn.out),
        };
        let stuck = match &self.session {
            Session::Home(session) => session.is_stuck(),
            Session::Guest(session) => session.is_stuck(),
            Session::Resting => false,
        };
        let known_name = self.said.as_ref().and_then(|said| said.peer_name.clone());
        let peer_name = name.or(known_name);
        let country = turn.context.broker.country(&self.peer().cluster).certified;
        // Compared before anything is copied: each input of a session ends here.
        let same = |said: &LeaseDesire| {
            (said.phase, said.reachable, said.stuck, said.peer)
                == (phase, reachable, stuck, self.key)
                && said.peer_name == peer_name
                && said.country.as_deref() == country
                && said.namespaces == self.namespaces
                && said.ranges == self.reach.ranges
                && said.own == self.reach.own
                && said.contract == self.spec.contract
                && said.ends == ends(&self.spec)
        };
        if self.said.as_ref().is_some_and(same) {
            return;
        }
        let desire = LeaseDesire {
            side: self.spec.side,
            contract: self.spec.contract.clone(),
            peer: self.key,
            peer_name,
            country: country.map(str::to_owned),
            reachable,
            away_since_ms,
            stuck,
            phase,
            ends: ends(&self.spec),
            namespaces: self.namespaces.clone(),
            ranges: self.reach.ranges.clone(),
            own: self.reach.own.clone(),
            is_burst: self.spec.is_burst,
        };
        turn.push(Effect::Lease(Box::new(desire.clone())));
        self.said = Some(desire);
    }

    /// The session at the provider removes its guests; that of home is told by its pods.
    fn drain(&mut self, now: Now, out: &mut Vec<Request>) -> Phase {
        let draining = |said: &LeaseDesire| said.phase >= Phase::Draining;
        if !self.said.as_ref().is_some_and(draining) {
            self.handle_guest(now, guest::Input::Close, out);
        }
        match &self.session {
            Session::Guest(session) if session.is_empty() || self.is_ended() => Phase::Ended,
            Session::Guest(_) | Session::Home(_) | Session::Resting => Phase::Draining,
        }
    }

    /// Erases all that is kept of it.
    fn erase(self, out: &mut Vec<Request>) {
        out.extend(self.kept.into_iter().map(|key| Request::Note(Change::Erase(key))));
    }
}

/// The party of a lease's contract that is not this cluster.
pub(crate) fn other_side(spec: &LeaseSpec) -> &Party {
    match spec.side {
        Side::Provider => &spec.contract.consumer,
        Side::Consumer => &spec.contract.provider,
    }
}

/// What the API server would answer to work of a lease of which nothing is left.
fn nothing_there(work: &guest::Effect) -> Option<guest::Input> {
    let absent = |item| Some(guest::Input::NotWritten(item, guest::Failure::Absent));
    match work {
        guest::Effect::Apply(item, ..) | guest::Effect::Delete(item, _) => absent(item.clone()),
        guest::Effect::Make(pod, ..)
        | guest::Effect::Update(pod, ..)
        | guest::Effect::Release(pod) => absent(Item::Pod(pod.clone())),
        guest::Effect::Confirm(item, _) => Some(guest::Input::Gone(item.clone())),
        guest::Effect::Map(of) => Some(guest::Input::Mapped(of.clone(), false)),
        guest::Effect::Persist(_)
        | guest::Effect::Erase(_)
        | guest::Effect::Send(_)
        | guest::Effect::Unmap(_) => None,
    }
}
