//! The exchange with one peer, as a value: who asks what when, until both have each other's latest
//! list of gateways and one secret in common; and what to do when one of them loses it.
//!
//! The lower of the two clusters alone draws secrets. Both say the hash of what they have whenever
//! they meet; where it differs the lower one says a secret and what it replaces, and the other
//! takes it only in the place of that. So nothing that comes late, twice or not at all does harm:
//! what was not confirmed is said again, and no other is drawn meanwhile.
//!
//! Effects are performed in order. What follows an [`Effect::Keep`] is done once it is on disk;
//! where that fails it is dropped, and the exchange begins anew from the disk. Signatures are
//! opened before ([`said`]), files are `secrets`' matter, and sessions the gateway's.

mod effect;
mod input;
mod link;
mod off;
mod pair;
pub(crate) mod said;
#[cfg(test)]
mod tests;
mod theirs;

use mercato_protocol::envelope::Verified;
use mercato_protocol::id::{ClusterId, Digest};
use mercato_protocol::time::{Deadline, Now};
use mercato_protocol::tunnel::{Answer, Ask, Gateways, PairSecret, RefusedReason};

pub(crate) use effect::Effect;
pub(crate) use input::Input;
use link::{Link, Pending};
pub(crate) use off::Off;
use pair::hash;
pub(crate) use pair::{Agreement, Pair};
use said::{Heard, Said};
use theirs::Theirs;

/// The exchange with one peer.
#[derive(Debug)]
pub(crate) struct Exchange {
    own: ClusterId,
    peer: ClusterId,
    /// The latest list of our own,
    list: Option<Verified<Gateways>>,
    /// and those of the peer.
    theirs: Theirs,
    pair: Pair,
    /// What the peer said last of the secret that it has.
    heard: Option<Option<Digest>>,
    /// The peer may not have the latest secret yet: it was drawn in this run and not confirmed, or
    /// the peer has said that it has the one before.
    is_unconfirmed: bool,
    in_force: bool,
    /// The peer has said last that it knows of no tunnels.
    is_earlier: bool,
    link: Option<Link>,
    /// Numbers of what was asked.
    asked: u64,
    said: Status,
}

/// What was said last of the tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Status {
    Agreed { list: Digest, secrets: Agreement },
    Off(Off),
}

impl Exchange {
    /// One with the secrets that are on disk, before there is a connection or a lease.
    pub(crate) fn new(own: ClusterId, peer: ClusterId, pair: Pair) -> Self {
        Self {
            own,
            peer,
            list: None,
            theirs: Theirs::new(),
            pair,
            heard: None,
            is_unconfirmed: false,
            in_force: false,
            is_earlier: false,
            link: None,
            asked: 0,
            said: Status::Off(Off::NoLease),
        }
    }

    /// Takes an input. `draw` gives a secret of good randomness; it is called once at most.
    pub(crate) fn handle(
        &mut self,
        now: Now,
        input: Input,
        draw: impl FnOnce() -> PairSecret,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Connected => self.link = Some(Link::default()),
            Input::Disconnected => self.link = None,
            Input::LeaseBegan => self.in_force = true,
            Input::LeaseEnded => self.end(&mut effects),
            Input::Own(list) => self.on_own(list, &mut effects),
            Input::Asked(said) => {
                self.is_earlier = false;
                let answer = self.on_asked(said, &mut effects);
                effects.push(Effect::Answer(answer));
            }
            Input::Answered { number, answer } => self.on_answer(now, number, answer, &mut effects),
            Input::Failed { number, reason } => {
                tracing::debug!(peer = %self.peer.short(), reason, "no answer about the tunnel");
                if let Some(link) = self.link_of(number) {
                    link.put_off(now);
                }
            }
            Input::Unsupported { number } => {
                if let Some(link) = self.link_of(number) {
                    link.is_unsupported = true;
                    self.is_earlier = true;
                    self.theirs.forget();
                }
            }
            Input::Rekeyed(with) => self.on_rekeyed(with, &mut effects),
            Input::Wake => {}
        }
        self.theirs.take(now);
        self.say(&mut effects);
        self.ask(now, draw, &mut effects);
        effects
    }

    /// When it wants to be woken, if it does.
    pub(crate) fn wakeup(&self) -> Option<Deadline> {
        let asks_ms = self.link.as_ref().and_then(|link| link.wait_ms);
        let asks_ms = asks_ms.filter(|_| self.wants().is_some());
        asks_ms.into_iter().chain(self.theirs.due_ms()).min().map(Deadline::Mono)
    }

    fn clusters(&self) -> [ClusterId; 2] {
        [self.own, self.peer]
    }

    fn current(&self) -> Option<Digest> {
        hash(&self.pair.current, self.clusters())
    }

    fn previous(&self) -> Option<Digest> {
        hash(&self.pair.previous, self.clusters())
    }

    /// With the last lease all of it ends, so that the next one begins with another secret.
    fn end(&mut self, effects: &mut Vec<Effect>) {
        let link = self.link.take().map(|_| Link::default());
        let (list, asked, said) = (self.list.take(), self.asked, self.said.clone());
        *self = Self { list, link, asked, said, ..Self::new(self.own, self.peer, Pair::default()) };
        effects.push(Effect::Forget);
    }

    /// A list of a clock that was set back holds for nobody: one that is later is needed.
    fn on_own(&mut self, list: Verified<Gateways>, effects: &mut Vec<Effect>) {
        match &self.list {
            Some(known) if known.digest() == list.digest() => {}
            Some(known) if known.issued_ms >= list.issued_ms => {
                effects.push(Effect::Reissue { after_ms: known.issued_ms });
            }
            Some(_) | None => {
                self.list = Some(list);
                self.go_on();
            }
        }
    }

    /// Something has changed: what was put off is asked now.
    fn go_on(&mut self) {
        if let Some(link) = &mut self.link {
            link.go_on();
        }
    }

    /// The connection over which this was asked, and is asked no more.
    fn link_of(&mut self, number: u64) -> Option<&mut Link> {
        let link = self.link.as_mut()?;
        link.pending.take_if(|pending| pending.number == number)?;
        Some(link)
    }

    fn on_asked(&mut self, said: Said, effects: &mut Vec<Effect>) -> Answer {
        let refused = |reason, text: &str| Answer::Refused { reason, text: text.to_owned() };
        if !self.in_force {
            let text = "no lease between the two clusters is in force here";
            return refused(RefusedReason::NoLease, text);
        }
        match said {
            Said::Introduce { gateways, secret_hash } => {
                if let Err(issued_ms) = self.theirs.hear(gateways) {
                    return Answer::Superseded { issued_ms };
                }
                self.hear(secret_hash);
                self.go_on();
                match &self.list {
                    Some(list) => {
                        let gateways = list.signed().clone();
                        Answer::Introduced { gateways, secret_hash: self.current() }
                    }
                    None => refused(RefusedReason::Unavailable, "the gateway here is starting"),
                }
            }
            Said::Secret { .. } if self.own < self.peer => {
                let text = "the cluster with the lower id draws the secret";
                refused(RefusedReason::NotYours, text)
            }
            Said::Secret { secret, replaces } => {
                let said = secret.hash(self.own, self.peer);
                if self.current() == replaces && self.current() != Some(said) {
                    self.pair = self.pair.followed_by(secret);
                    effects.push(Effect::Keep(self.pair.clone()));
                }
                // What it has said it has, also where we keep what we have.
                self.hear(Some(said));
                Answer::Holds { secret_hash: self.current() }
            }
        }
    }

    fn hear(&mut self, secret_hash: Option<Digest>) {
        self.heard = Some(secret_hash);
        if secret_hash.is_some() && secret_hash == self.current() {
            self.is_unconfirmed = false;
        } else if secret_hash.is_some() && secret_hash == self.previous() {
            self.is_unconfirmed = true;
        }
    }

    fn on_answer(&mut self, now: Now, number: u64, answer: Heard, effects: &mut Vec<Effect>) {
        let current = self.current();
        let Some(link) = &mut self.link else { return };
        let Some(pending) = link.pending.take_if(|pending| pending.number == number) else {
            return;
        };
        self.is_earlier = false;
        match answer {
            Heard::Introduced { gateways, secret_hash } => {
                link.told = pending.list;
                link.refused = None;
                // Of an earlier list it is told when it introduces itself.
                if self.theirs.hear(gateways).is_ok() {
                    self.hear(secret_hash);
                }
                self.go_on();
            }
            Heard::Holds { secret_hash } => {
                // One that keeps saying something else is not asked at once again.
                if secret_hash.is_none() || secret_hash != current {
                    link.put_off(now);
                }
                self.hear(secret_hash);
            }
            Heard::Superseded { issued_ms } => {
                if self.list.as_ref().is_some_and(|list| list.issued_ms <= issued_ms) {
                    effects.push(Effect::Reissue { after_ms: issued_ms });
                }
                link.put_off(now);
            }
            Heard::Refused { text } => link.on_refused(now, text, &pending),
        }
    }

    fn on_rekeyed(&mut self, with: Digest, effects: &mut Vec<Effect>) {
        let is_current = self.current() == Some(with);
        if is_current && self.pair.previous.take().is_some() {
            // The other end has it, whether or not it came to say so.
            self.hear(Some(with));
            effects.push(Effect::Keep(self.pair.clone()));
        }
    }

    /// Says what has become of the tunnel, if that is something else than before.
    fn say(&mut self, effects: &mut Vec<Effect>) {
        let status = match self.status() {
            Ok((list, secrets)) => {
                let gateways = list.clone();
                let status = Status::Agreed { list: list.digest(), secrets: secrets.clone() };
                if status != self.said {
                    effects.push(Effect::Agreed { gateways, secrets });
                }
                status
            }
            // Sessions that are there go on until both have one secret again.
            Err(Off::NoSecret) if matches!(self.said, Status::Agreed { .. }) => return,
            Err(off) => {
                let status = Status::Off(off.clone());
                if status != self.said {
                    effects.push(Effect::Off(off));
                }
                status
            }
        };
        self.said = status;
    }

    fn status(&self) -> Result<(&Verified<Gateways>, Agreement), Off> {
        if !self.in_force {
            return Err(Off::NoLease);
        }
        let list = self.list.as_ref().ok_or(Off::Starting)?;
        if let Some(reason) = &list.reason {
            return Err(Off::NoGatewayHere(reason.clone()));
        }
        if self.is_earlier {
            return Err(Off::EarlierVersion);
        }
        let Some(theirs) = self.theirs.taken() else {
            let refused = self.link.as_ref().and_then(|link| link.refused.clone());
            return Err(refused.map_or(Off::NotMet, Off::Refused));
        };
        if let Some(reason) = &theirs.reason {
            return Err(Off::NoGatewayThere(reason.clone()));
        }
        let has = self.heard.flatten();
        self.pair.shared(self.clusters(), has).map(|it| (theirs, it)).ok_or(Off::NoSecret)
    }

    /// What is to be asked next, if anything is.
    fn wants(&self) -> Option<Want> {
        let (link, list) = (self.link.as_ref()?, self.list.as_ref()?);
        if !self.in_force || link.is_unsupported || link.pending.is_some() {
            return None;
        }
        if link.told != Some(list.digest()) {
            return Some(Want::Introduce);
        }
        let theirs = self.theirs.taken()?;
        let has_gateways = list.reason.is_none() && theirs.reason.is_none();
        let heard = self.heard?;
        let differs = self.current().is_none() || heard != self.current();
        (self.own < self.peer && has_gateways && differs).then_some(Want::Secret { heard })
    }

    fn ask(&mut self, now: Now, draw: impl FnOnce() -> PairSecret, effects: &mut Vec<Effect>) {
        let is_early = |at_ms: u64| !Deadline::Mono(at_ms).is_due(now);
        if self.link.as_ref().and_then(|link| link.wait_ms).is_some_and(is_early) {
            return;
        }
        let Some(want) = self.wants() else { return };
        let (ask, list) = match want {
            Want::Introduce => {
                let Some(list) = &self.list else { return };
                let gateways = list.signed().clone();
                let ask = Ask::Introduce { gateways, secret_hash: self.current() };
                (ask, Some(list.digest()))
            }
            Want::Secret { heard } => {
                let Some(ask) = self.secret(heard, draw, effects) else { return };
                (ask, None)
            }
        };
        self.asked += 1;
        let number = self.asked;
        if let Some(link) = &mut self.link {
            link.wait_ms = None;
            link.pending = Some(Pending { number, list, is_overtaken: false });
        }
        effects.push(Effect::Ask { number, ask });
    }

    /// The secret for a peer that has said another hash. It is a new one, unless the peer may
    /// not have had the latest yet.
    fn secret(
        &mut self,
        heard: Option<Digest>,
        draw: impl FnOnce() -> PairSecret,
        effects: &mut Vec<Effect>,
    ) -> Option<Ask> {
        if !self.is_unconfirmed || self.pair.current.is_none() {
            self.is_unconfirmed = true;
            self.pair = self.pair.followed_by(draw());
            effects.push(Effect::Keep(self.pair.clone()));
        }
        let secret = copy(self.pair.current.as_ref()?);
        Some(Ask::Secret { secret, replaces: heard })
    }
}

/// What an exchange is to ask.
enum Want {
    Introduce,
    Secret { heard: Option<Digest> },
}

/// The one that travels: a frame owns what it says, and erases it once it was said.
fn copy(secret: &PairSecret) -> PairSecret {
    PairSecret::new(zeroize::Zeroizing::new(*secret.expose()))
}
