//! The two clusters, the link between them, and what drives the sessions: the reference
//! that they are held against.

mod guest;
mod home;
mod pod;
mod there;

use std::collections::VecDeque;

use mercato_offload::address::Tunnel;
use mercato_offload::home::Input;
use mercato_offload::key::Item;
use mercato_offload::message::{Frame, Refusal, ToGuest, ToHome};
use mercato_protocol::id::Digest;
use mercato_protocol::time::Now;

pub(crate) use guest::Provider;
pub(crate) use home::Home;

/// What happens.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Create(u8),
    Edit(u8),
    TurnGate(u8),
    Overwrite(u8),
    Delete(u8, u32),
    ForceDelete(u8),
    EditConfig(u8),
    DeleteConfig(u8),
    GuestEnds(u8, bool),
    GuestChanges(u8),
    ProviderDeletes(u8),
    ProviderRipsOut(u8),
    /// Guests that nothing keeps go; unseen, where the watch is behind.
    Reap(bool),
    RenewSandbox(u8),
    Tunnel(u8),
    CutLink,
    RaiseLink,
    CrashHome,
    CrashGuest,
    Relist,
    /// Home's watches are behind from now on, or no longer.
    Lag(bool),
    Run(u16),
    Wait(u64),
}

/// A frame under way, with the digests of the bodies that go with it.
pub(crate) struct Letter<T> {
    pub(crate) frame: Frame<T>,
    pub(crate) bodies: Vec<Digest>,
}

pub(crate) struct World {
    pub(crate) now: Now,
    pub(crate) home: Home,
    pub(crate) provider: Provider,
    link: bool,
    to_guest: Vec<Letter<ToGuest>>,
    to_home: Vec<Letter<ToHome>>,
    faults: u8,
    dice: u32,
}

impl World {
    /// `faults`: how many of a hundred steps go wrong.
    pub(crate) fn new(faults: u8) -> Self {
        let mut world = Self {
            now: Now { mono_ms: 1, wall_ms: 1 },
            home: Home::new(),
            provider: Provider::new(),
            link: false,
            to_guest: Vec::new(),
            to_home: Vec::new(),
            faults,
            dice: 7,
        };
        world.home.start(world.now);
        world.provider.start(world.now);
        world
    }

    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Create(name) => self.home.create(name),
            Action::Edit(name) => self.home.edit(name),
            Action::TurnGate(name) => self.home.turn_gate(name),
            Action::Overwrite(name) => self.home.overwrite(name),
            Action::Delete(name, grace_s) => self.home.delete(name, grace_s),
            Action::ForceDelete(name) => self.home.force_delete(name),
            Action::EditConfig(name) => self.home.edit_config(name),
            Action::DeleteConfig(name) => self.home.delete_config(name),
            Action::GuestEnds(name, good) => self.provider.end(name, good),
            Action::GuestChanges(name) => self.provider.change(name),
            Action::ProviderDeletes(name) => self.provider.delete_by_owner(name),
            Action::ProviderRipsOut(name) => self.provider.rip_out(name),
            Action::Reap(false) => self.provider.reap(),
            Action::Reap(true) => self.provider.reap_unseen(),
            Action::RenewSandbox(name) => self.provider.renew_sandbox(name),
            Action::Tunnel(what) => self.home.tunnel(self.now, what),
            Action::CutLink => self.cut(),
            Action::RaiseLink => self.raise(),
            Action::CrashHome => {
                self.home.start(self.now);
                self.home.link(self.now, self.link);
            }
            Action::CrashGuest => {
                self.provider.start(self.now);
                self.provider.link(self.now, self.link);
            }
            Action::Relist => {
                self.home.relist();
                self.provider.relist();
            }
            Action::Lag(lags) => self.home.lags = lags,
            Action::Run(seed) => {
                self.dice ^= u32::from(seed) + 1;
                for _ in 0..20 {
                    self.step();
                }
            }
            Action::Wait(ms) => self.wait(ms),
        }
        self.check();
    }

    /// An address is one pod's, and is shown once the provider brings packets to the pod.
    fn check(&self) {
        self.provider.check();
        self.home.check();
        for (uid, address) in self.home.addresses() {
            let brought = |address| self.provider.ever_brought_to(&uid, address);
            assert!(address.is_none_or(brought), "{uid} is shown where nobody answers");
        }
    }

    fn cut(&mut self) {
        if self.link {
            self.link = false;
            self.home.link(self.now, false);
            self.provider.link(self.now, false);
        }
    }

    fn raise(&mut self) {
        self.link = true;
        self.home.link(self.now, true);
        self.provider.link(self.now, true);
    }

    fn wait(&mut self, ms: u64) {
        self.now.mono_ms += ms;
        self.now.wall_ms += ms;
        self.home.wake(self.now);
        self.provider.wake(self.now);
    }

    fn roll(&mut self, below: usize) -> usize {
        self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.dice >> 8) as usize % below.max(1)
    }

    fn goes_wrong(&mut self) -> bool {
        let faults = usize::from(self.faults);
        self.roll(100) < faults
    }

    /// One small thing happens somewhere. Returns whether there was anything to do.
    fn step(&mut self) -> bool {
        self.to_guest.append(&mut self.home.outbox);
        self.to_home.append(&mut self.provider.outbox);
        let busy = self.home.is_busy()
            || self.provider.is_busy()
            || !self.to_guest.is_empty()
            || !self.to_home.is_empty();
        let bad = self.goes_wrong();
        match self.roll(4) {
            0 => self.home.work(self.now, bad),
            1 => self.provider.work(self.now, bad),
            2 => {
                let order = if self.faults == 0 { 0 } else { self.roll(self.to_guest.len()) };
                let double = self.goes_wrong();
                if let Some(letter) = pick(&mut self.to_guest, order, double)
                    && self.link
                    && !bad
                {
                    self.provider.receive(self.now, letter);
                }
            }
            _ => {
                let order = if self.faults == 0 { 0 } else { self.roll(self.to_home.len()) };
                let double = self.goes_wrong();
                if let Some(letter) = pick(&mut self.to_home, order, double)
                    && self.link
                    && !bad
                {
                    self.home.receive(self.now, letter);
                }
            }
        }
        self.check();
        busy
    }

    /// Runs until nothing is left to do, letting time pass where something waits for it.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..200_000 {
            if self.step() {
                quiet = 0;
                continue;
            }
            quiet += 1;
            if quiet > 20 {
                let due = [self.home.due(), self.provider.due()].into_iter().flatten().min();
                let Some(at) = due else { return };
                self.wait(at.saturating_sub(self.now.mono_ms).max(1));
                quiet = 0;
            }
        }
        panic!("never settles");
    }

    /// No more faults; both sides start anew.
    pub(crate) fn heal(&mut self) {
        self.faults = 0;
        self.home.lags = false;
        let tunnel = [0, 2, 3][self.roll(3)];
        if self.roll(2) == 0 {
            self.home.tunnel(self.now, tunnel);
        }
        self.raise();
        self.settle();
        self.home.tunnel(self.now, tunnel);
        self.settle();
    }

    /// Every live home pod runs over there with its content; nothing else does.
    pub(crate) fn assert_agreement(&self) {
        let wanted = self.home.wanted();
        let running = self.provider.running();
        for (uid, digest) in &wanted {
            if let Some(there) = running.get(uid) {
                assert!(self.provider.is_fixed(uid) || there == digest, "{uid}: old content");
            } else {
                assert!(self.home.is_terminal(uid), "{uid} runs nowhere and has not ended");
            }
        }
        for uid in running.keys() {
            assert!(wanted.contains_key(uid), "{uid} runs though home does not want it");
        }
        assert!(self.home.nothing_lingers(), "a deleted pod lingers at home");
        assert_eq!(self.provider.configs(), self.home.configs_wanted());
        assert!(self.home.statuses_match(&self.provider.statuses()));
        for (uid, address) in
            self.home.addresses().iter().filter(|(uid, _)| running.contains_key(uid))
        {
            let brought = address.map(|address| self.provider.brings_to(uid, address));
            let ended = self.provider.is_fixed(uid);
            assert!(
                ended || brought == matches!(self.home.tunnel, Tunnel::Agreed(_)).then_some(true),
                "{uid}: {address:?}"
            );
        }
        assert!(self.provider.brings_to_the_living_alone());
        assert!(self.home.readiness_matches(), "a gate was turned, and readiness was not");
    }

    pub(crate) fn guest_runs(&self, name: u8) -> bool {
        self.home.uid(name).is_some_and(|uid| self.provider.running().contains_key(&uid))
    }

    pub(crate) fn home_has_failed(&self, name: u8) -> bool {
        self.home.phase(name) == Some(pod::Phase::Failed(String::new()))
    }

    pub(crate) fn home_is_evicted(&self, name: u8) -> bool {
        self.home.phase(name) == Some(pod::Phase::Failed("Evicted".into()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.home.is_empty() && self.provider.is_empty()
    }

    pub(crate) fn show_empty_lists(&mut self) {
        self.home.show_empty_list(self.now);
        self.provider.show_empty_list(self.now);
    }
}

fn pick<T: Clone>(letters: &mut Vec<Letter<T>>, n: usize, double: bool) -> Option<Letter<T>> {
    if n >= letters.len() {
        return None;
    }
    if double {
        let Letter { frame, bodies } = &letters[n];
        return Some(Letter { frame: frame.clone(), bodies: bodies.clone() });
    }
    Some(letters.remove(n))
}

/// What is sent of an object's version.
fn content(text: &str, version: u32) -> Digest {
    Digest::of(format!("{text} {version}").as_bytes())
}

/// A body that did not go with what was said.
fn withheld(item: Item, digest: Digest) -> Input {
    let refusal = Refusal { path: "data".to_owned(), reason: "too much".to_owned() };
    Input::Withheld { item, digest, refusal }
}

/// Work that is under way outside of a session.
pub(crate) type Queue<T> = VecDeque<T>;
