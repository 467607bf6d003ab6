//! Closes guests as their gates ask, and keeps closed whom it has closed, whatever becomes of rules:
//! a guest of which nobody speaks any more reaches nobody. Who was closed by mistake is opened once that has been
//! said for a while; and a guest that runs open all the same is closed at once, and told of.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use mercato_host::{HostError, Sandbox};
use mercato_kubelet::{Repeated, warn_once};
use mercato_protocol::gate::{Answer, GuestUid};
use tokio::sync::{mpsc, watch};
use tokio::task::block_in_place;
use tokio::time::Instant;

use super::forwarding::Forwarding;
use super::gate::{Asked, FromGate, Heard};
use super::held::{Held, why_not};
use super::sandboxes::Sandboxes;
use super::unkept::Unkept;
use super::{ClosingRules, Closings, GuestRule};
use crate::limits;

/// What it is that closes guests, and keeps them so.
pub(super) struct ClosingKeeper<S> {
    sandboxes: Arc<S>,
    rules: watch::Receiver<Option<Arc<ClosingRules>>>,
    asked: mpsc::Receiver<FromGate>,
    tell: watch::Sender<Closings>,
    forwarding: watch::Receiver<Forwarding>,
    /// Whom it has closed, by the address that was asked from.
    held: BTreeMap<IpAddr, Held>,
    /// When it was tried last whether anybody can be closed, and why nobody can.
    tried: Option<(Instant, Option<String>)>,
    failing: Repeated,
    /// What a look has found last, and whose gates have asked in vain, and why.
    unkept: Unkept,
    unclosed: BTreeMap<GuestUid, String>,
    /// Guests of which it was said that their address cannot be their own, as many as have rules.
    uncalled: BTreeSet<GuestUid>,
    /// When a guest was found last that had begun and was open, and which.
    found_open: Option<(Instant, String)>,
    /// Guests that it has seen end at these addresses, which others may have by now.
    ended: BTreeMap<GuestUid, IpAddr>,
    /// It was said whom to close, and so whose rules are left over.
    is_ruled: bool,
    /// There may be rules on this machine of guests that there are no more.
    has_leftovers: bool,
}

/// Who says that a guest is to be closed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// Its gate, which holds it back.
    Gate,
    /// The daemon: its gate is open, and so an earlier run has closed it.
    Daemon,
}

impl<S: Sandboxes> ClosingKeeper<S> {
    pub(super) fn new(
        sandboxes: Arc<S>,
        rules: watch::Receiver<Option<Arc<ClosingRules>>>,
        asked: mpsc::Receiver<FromGate>,
        tell: watch::Sender<Closings>,
        forwarding: watch::Receiver<Forwarding>,
    ) -> Self {
        let (held, tried, failing) = (BTreeMap::new(), None, Repeated::default());
        Self {
            sandboxes,
            rules,
            asked,
            tell,
            forwarding,
            held,
            tried,
            failing,
            unkept: Unkept::default(),
            unclosed: BTreeMap::new(),
            uncalled: BTreeSet::new(),
            found_open: None,
            ended: BTreeMap::new(),
            is_ruled: false,
            has_leftovers: true,
        }
    }

    /// Does so for as long as somebody says whom to close.
    pub(super) async fn keep(mut self) {
        loop {
            self.look();
            let until = Instant::now() + limits::CLOSE_LOOK;
            loop {
                tokio::select! {
                    changed = self.rules.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    Some(said) = self.asked.recv() => match said {
                        FromGate::Asked(asked) => self.on_asked(asked),
                        FromGate::Heard(heard) => self.on_heard(heard),
                    },
                    Ok(()) = self.forwarding.changed() => self.say(),
                    () = tokio::time::sleep_until(until) => break,
                }
            }
        }
    }

    /// Closes the guest whose gate asks, unless nobody speaks of it any more.
    fn on_asked(&mut self, asked: Asked) {
        let Asked { uid, from, answer } = asked;
        if answer.is_closed() {
            // It asks anew.
            return;
        }
        let rules = self.rules.borrow().clone().unwrap_or_default();
        let Some(rule) = rules.rule_of(&uid, from) else {
            // Its gate asks again.
            return;
        };
        let said = match self.close_anew(&uid, from, rule, &rules, By::Gate) {
            Ok(true) => {
                self.unclosed.remove(&uid);
                self.say();
                Answer::Open
            }
            Ok(false) => Answer::Wait,
            Err(error) => {
                self.fails(uid, error);
                Answer::Wait
            }
        };
        // Who has asked may be gone.
        let _ = answer.send(said);
    }

    /// A guest whose gate asks is not closed as it should be.
    fn fails(&mut self, uid: GuestUid, error: HostError) {
        let Err(error) = if_gone(error) else { return };
        warn_once!(self.failing, error; "a guest is not closed, and does not begin");
        // Of what was to be in force a part may be.
        self.has_leftovers = true;
        // There are no more of them than there are rules.
        self.unclosed.insert(uid, error.to_string());
        self.say();
    }

    /// Gives a guest the address that everybody knows it by, as long as its gate holds it back.
    fn on_heard(&mut self, heard: Heard) {
        let Heard { uid, from, done } = heard;
        let rules = self.rules.borrow().clone().unwrap_or_default();
        if let Some(rule) = rules.rule_of(&uid, from)
            && let Err(error) = self.put_called(&uid, from, rule, &rules)
        {
            self.fails(uid, error);
        }
        drop(done);
    }

    fn put_called(
        &mut self,
        uid: &GuestUid,
        pod: IpAddr,
        rule: &GuestRule,
        rules: &ClosingRules,
    ) -> Result<(), HostError> {
        let its = |held: &&Held| held.uid.as_ref() == Some(uid) && rule.pod != Some(pod);
        let Some(own) = self.held.get(&pod).filter(its).map(|held| held.own.clone()) else {
            return Ok(());
        };
        let node = block_in_place(|| self.sandboxes.addresses())?;
        let due = self.due(uid, pod, &own, rule, &node, rules);
        let Some(held) =
            self.held.get_mut(&pod).filter(|held| due.is_some_and(|it| held.called != Some(it)))
        else {
            return Ok(());
        };
        held.called = due;
        let wanted = held.wanted(Some(rule), node, rules);
        block_in_place(|| self.sandboxes.close(&held.sandbox, &wanted))
    }

    /// By what address a guest is to know itself, where that is another one than it has here.
    fn due(
        &mut self,
        uid: &GuestUid,
        pod: IpAddr,
        own: &BTreeSet<IpAddr>,
        rule: &GuestRule,
        node: &BTreeSet<IpAddr>,
        rules: &ClosingRules,
    ) -> Option<Ipv4Addr> {
        let called = rule.called.filter(|called| !own.contains(&IpAddr::from(*called)))?;
        let others = self.held.iter().filter(|(other, _)| **other != pod).map(|(_, held)| held);
        let Some(why) = why_not(called.into(), own, node, rules.names, others) else {
            return Some(called);
        };
        if self.uncalled.insert(uid.clone()) {
            // Once for each guest.
            tracing::warn!(%uid, %pod, %called, "a guest does not know itself by its address: {why}");
        }
        None
    }

    /// Whether the pod that has this address is here, and closed from now on, with the address that everybody
    /// knows it by.
    fn close_anew(
        &mut self,
        uid: &GuestUid,
        pod: IpAddr,
        rule: &GuestRule,
        rules: &ClosingRules,
        by: By,
    ) -> Result<bool, HostError> {
        if self.held.len() >= limits::CLOSED && !self.held.contains_key(&pod) {
            self.look();
        }
        let sandboxes = &self.sandboxes;
        let Some((sandbox, own)) = block_in_place(|| sandboxes.find(pod))? else {
            return Ok(false);
        };
        // A sandbox is one pod's from its beginning to its end, whatever is asked from there.
        let before = self.held.get(&pod).filter(|held| held.sandbox == sandbox);
        if before.and_then(|held| held.uid.as_ref()).is_some_and(|before| before != uid) {
            return Ok(false);
        }
        let asks = rule.pod != Some(pod);
        let is_open = !asks && !block_in_place(|| sandboxes.has_rules(&sandbox))?;
        // What is known of an address may be of somebody who has had it before: who asks has not begun.
        if is_open && by == By::Gate {
            return Ok(false);
        }
        let called = match before {
            Some(held) => held.called,
            None => block_in_place(|| sandboxes.called(&sandbox))?,
        };
        let node = block_in_place(|| sandboxes.addresses())?;
        // Whoever has begun keeps the address that it knows.
        let due = asks.then(|| self.due(uid, pod, &own, rule, &node, rules)).flatten();
        let sandboxes = &self.sandboxes;
        let reached = Arc::clone(&rule.reached);
        let (of, names, other_since) = (Some(uid.clone()), rules.names, None);
        let egress = rule.egress.clone();
        let held =
            Held { uid: of, sandbox, own, called, reached, names, egress, asks, other_since };
        let wanted = held.wanted(Some(rule), node, rules);
        block_in_place(|| sandboxes.close(&held.sandbox, &wanted))?;
        if is_open {
            // Once for each that is found so.
            tracing::warn!(%uid, %pod, "a guest had begun, and was not closed until now");
            let why = format!(
                "the guest {uid} at {pod} had begun, and was not closed until a moment ago"
            );
            self.found_open = Some((Instant::now(), why));
        }
        if self.held.len() < limits::CLOSED || self.held.contains_key(&pod) {
            self.held.insert(pod, held);
            // It asks by a connection that the change of its address would break.
            return Ok(due.is_none() || due == called);
        }
        Ok(false)
    }

    /// Looks at each guest, and makes good what somebody has changed.
    fn look(&mut self) {
        self.try_now_and_then();
        let said = self.rules.borrow_and_update().clone();
        let (is_said, rules) = (said.is_some(), said.unwrap_or_default());
        let done = block_in_place(|| self.keep_closed(&rules, is_said));
        if self.unkept.ends(done) {
            self.failing.is_over();
        }
        self.unclosed.retain(|uid, _| rules.guests.contains_key(uid));
        self.uncalled.retain(|uid| rules.guests.contains_key(uid));
        self.ended.retain(|uid, at| rules.guests.get(uid).is_some_and(|it| it.pod == Some(*at)));
        self.found_open.take_if(|(at, _)| at.elapsed() >= limits::FOUND_OPEN);
        self.say();
    }

    fn keep_closed(&mut self, rules: &ClosingRules, is_said: bool) -> Result<(), HostError> {
        if is_said && !self.is_ruled {
            for (pod, sandbox, own) in self.sandboxes.closed()? {
                if self.held.len() < limits::CLOSED {
                    let called = self.sandboxes.called(&sandbox)?;
                    let unknown = Held { called, ..Held::unknown(sandbox, own, rules.names) };
                    self.held.entry(pod).or_insert(unknown);
                }
            }
            self.is_ruled = true;
        }
        let known = rules.guests.iter().filter_map(|(uid, rule)| Some((uid, rule.pod?, rule)));
        let is_new = |(uid, pod, _): &(&GuestUid, IpAddr, _)| {
            !self.held.contains_key(pod) && self.ended.get(*uid) != Some(pod)
        };
        let new: Vec<_> = known.filter(is_new).collect();
        if self.held.is_empty() && new.is_empty() {
            return self.forget();
        }
        let node = self.sandboxes.addresses()?;
        let by_address: BTreeMap<_, _> =
            rules.guests.iter().filter_map(|(uid, rule)| Some((rule.pod?, uid))).collect();
        self.held.retain(|pod, held| {
            let is_other = rules.others.contains(pod) && !by_address.contains_key(pod);
            held.other_since = held.other_since.filter(|_| is_other);
            if let Some(uid) = by_address.get(pod) {
                held.uid = Some((*uid).clone());
            } else if is_other && held.has_been_other() {
                // Once for each time that one was closed.
                tracing::warn!(%pod, "a pod was closed that is no guest, and is opened again");
                // Whoever is gone is open.
                let released = self.sandboxes.release(&held.sandbox).or_else(if_gone);
                return released.map_err(|error| self.unkept.fails(*pod, error)).is_err();
            }
            let rule = held.uid.as_ref().and_then(|uid| rules.guests.get(uid));
            // Of one that is not known it is not known either whether its gate has heard.
            held.asks = held.uid.is_none() || rule.is_some_and(|rule| rule.pod != Some(*pod));
            let wanted = held.wanted(rule, node.clone(), rules);
            held.take(rule, rules.names);
            match self.sandboxes.close(&held.sandbox, &wanted) {
                Ok(()) => true,
                Err(HostError::SandboxGone { .. }) => {
                    self.has_leftovers = true;
                    self.ended.extend(held.uid.take().map(|uid| (uid, *pod)));
                    // It has not said that they are over, and conntrack knows them for days.
                    let forgotten =
                        self.sandboxes.forget_connections(&held.own, &held.reached_last());
                    let _ = forgotten.map_err(|error| self.unkept.fails(*pod, error));
                    false
                }
                Err(error) => {
                    self.unkept.fails(*pod, error);
                    true
                }
            }
        });
        for (uid, pod, rule) in new {
            if let Err(error) = self.close_anew(uid, pod, rule, rules, By::Daemon) {
                self.unkept.fails(pod, error);
            }
        }
        if self.unkept.is_well() { self.forget() } else { Ok(()) }
    }

    /// What is left over of guests that are gone goes.
    fn forget(&mut self) -> Result<(), HostError> {
        if !(self.is_ruled && self.has_leftovers) {
            return Ok(());
        }
        let held: Vec<&Sandbox> = self.held.values().map(|held| &held.sandbox).collect();
        self.sandboxes.forget(&held)?;
        self.has_leftovers = false;
        Ok(())
    }

    fn try_now_and_then(&mut self) {
        let is_fresh = |(at, trouble): &(Instant, Option<String>)| {
            let after = if trouble.is_some() { limits::CLOSE_LOOK } else { limits::CLOSE_TRY };
            at.elapsed() < after.saturating_sub(Duration::from_millis(1))
        };
        if !self.tried.as_ref().is_some_and(is_fresh) {
            let tried = block_in_place(|| self.sandboxes.try_to_close());
            self.tried = Some((Instant::now(), tried.err().map(|error| error.to_string())));
        }
    }

    fn say(&self) {
        // A node's rules let no guest call it, nor its gate.
        let heard = self.held.values().filter(|held| !held.asks);
        let addresses = heard.flat_map(|held| &held.own).copied().collect();
        // What goes out before the node has a rule for it would keep its source, and get no answer.
        let outward = self.held.values().flat_map(Held::outward).collect();
        let tried = self.tried.as_ref().and_then(|(_, trouble)| trouble.as_ref());
        let found_open = self.found_open.as_ref().map(|(_, why)| why);
        let known = self.unkept.lasting().or(self.unclosed.values().next());
        let trouble = known.or(found_open).or(tried).cloned();
        let trouble = trouble.or_else(|| self.forwarding.borrow().clone());
        let now = Closings { addresses, outward, trouble };
        self.tell.send_if_modified(|before| {
            let is_new = *before != now;
            *before = now;
            is_new
        });
    }
}

/// Whoever is gone needs nothing any more.
fn if_gone(error: HostError) -> Result<(), HostError> {
    if matches!(error, HostError::SandboxGone { .. }) { Ok(()) } else { Err(error) }
}
