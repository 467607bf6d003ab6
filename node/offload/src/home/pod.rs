//! What one pod calls for: the next statement to the provider, the next write at home.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mercato_protocol::id::Digest;

use super::{Config, Effect, HomePod, Write};
use crate::address::{Reach, Tunnel};
use crate::key::{Item, ObjectKey, PodId};
use crate::message::{Refusal, Report, Stage, ToGuest};

/// A pod as this side knows it.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) id: PodId,
    /// As home's API server last had it; none before it was ever seen there.
    pub(super) seen: Option<HomePod>,
    /// Certainly not at home any more.
    pub(super) gone: bool,
    /// The provider may know of it.
    pub(super) known_there: bool,
    pub(super) told: Told,
    /// What it is counted as a user of.
    pub(super) uses: BTreeSet<ObjectKey>,
    pub(super) report: Option<Report>,
    /// The body of the report's status has come.
    pub(super) has_status: bool,
    /// The provider's, or our own.
    pub(super) refusal: Option<Refusal>,
    pub(super) written: Option<Write>,
    pub(super) writing: Option<Write>,
    /// What that is made of has changed since it began.
    pub(super) stale: bool,
    /// By which everyone knows it, on record.
    pub(super) address: Option<IpAddr>,
    /// By which address home was asked to carry packets for it, in this run,
    pub(super) asked: Option<IpAddr>,
    /// and by which one it does so; none of them: it cannot.
    pub(super) carried: Option<Option<IpAddr>>,
    /// What the provider does with packets for it, by its word on this link.
    pub(super) in_force: Option<Option<IpAddr>>,
    pub(super) second: Second,
}

/// What is known of the second family.
#[derive(Debug, Default)]
pub(super) struct Second {
    /// Whether the provider brings packets of it, by its last word.
    pub(super) in_force: bool,
    /// Whether home was asked to carry them, in this run,
    pub(super) asked: bool,
    /// and by which address it does so; none of them: by none.
    pub(super) carried: Option<Option<IpAddr>>,
}

/// What the provider was told, or said that it holds, since the last resynchronisation.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) put: Option<Digest>,
    pub(super) delete: Option<u32>,
    pub(super) want: bool,
    pub(super) taken: bool,
    pub(super) address: Option<IpAddr>,
}

impl Pod {
    pub(super) fn new(id: PodId) -> Self {
        Self {
            id,
            seen: None,
            gone: false,
            known_there: true,
            told: Told::default(),
            uses: BTreeSet::new(),
            report: None,
            has_status: false,
            refusal: None,
            written: None,
            writing: None,
            stale: false,
            address: None,
            asked: None,
            carried: None,
            in_force: None,
            second: Second::default(),
        }
    }

    /// Packets for it are to be carried by its address from now on; by none, if it has none.
    pub(super) fn ask(&mut self) {
        (self.asked, self.carried) = (self.address, None);
        (self.second.asked, self.second.carried) = (false, None);
    }

    /// The provider says what it does with packets for it; whether that is about its address.
    pub(super) fn on_in_force(&mut self, address: Option<IpAddr>, second: bool) -> bool {
        // Otherwise it is an answer to an earlier word of ours, or a lie.
        let is_its = self.address.is_some() && (address.is_none() || address == self.address);
        if is_its {
            self.in_force = Some(address);
            self.second.in_force = second && address.is_some();
        }
        is_its
    }

    /// Packets are carried by this address, or cannot be; whether that was asked.
    pub(super) fn on_carried(&mut self, address: IpAddr, done: bool) -> bool {
        let is_asked = self.asked == Some(address);
        if is_asked {
            self.carried = Some(done.then_some(address));
        }
        is_asked
    }

    /// Packets for it are carried by no address any more.
    pub(super) fn uncarry(&mut self) -> Option<Effect> {
        (self.in_force, self.carried, self.second) = (None, None, Second::default());
        self.asked.take().map(|_| Effect::Uncarry(self.id.clone()))
    }

    /// Packets of the second family are carried by this address, or by none; whether that was asked.
    pub(super) fn on_second_carried(&mut self, address: IpAddr, by: Option<IpAddr>) -> bool {
        let is_asked = self.asked == Some(address) && self.second.asked;
        if is_asked {
            self.second.carried = Some(by);
        }
        is_asked
    }

    /// Has packets of the second family carried where the provider says that it brings them.
    pub(super) fn carry_second(&mut self) -> Option<Effect> {
        let in_force = self.in_force?;
        let there = self.asked.is_some() && in_force == self.asked && self.second.in_force;
        if !there {
            self.second.carried = Some(None);
        }
        if std::mem::replace(&mut self.second.asked, there) == there {
            return None;
        }
        Some(Effect::CarrySecond(self.id.clone(), self.asked?, there))
    }

    /// Neither known at home nor known to be gone from it.
    pub(super) fn is_unknown(&self) -> bool {
        self.seen.is_none() && !self.gone
    }

    /// Over, over there.
    pub(super) fn is_over(&self) -> bool {
        matches!(&self.report, Some(Report { stage: Stage::Gone(_), .. }))
    }

    fn is_terminal(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.terminal)
    }

    fn deletion_grace_s(&self) -> Option<u32> {
        if self.gone { Some(0) } else { self.seen.as_ref()?.deletion_grace_s }
    }

    /// What it refers to, as long as it may run.
    pub(super) fn needs(&self) -> &[ObjectKey] {
        match &self.seen {
            Some(seen) if !seen.terminal && !self.is_over() => &seen.needs,
            _ => &[],
        }
    }

    /// The next thing to tell the provider; it counts as told from then on.
    pub(super) fn statement(&mut self, config: &Config) -> Option<ToGuest> {
        let id = || self.id.clone();
        if self.gone && self.is_over() {
            return Some(ToGuest::Forget(id()));
        }
        let ended = self.report.as_ref().is_some_and(|report| report.stage != Stage::Live);
        if let Some(grace_s) = self.deletion_grace_s()
            && !self.is_over()
            && self.told.delete.is_none_or(|told| grace_s < told)
        {
            let said = ToGuest::Delete { pod: id(), grace_s };
            self.told.delete = Some(grace_s);
            self.known_there = true;
            return Some(said);
        }
        if (self.gone || self.is_terminal() && ended) && !self.told.taken {
            let said = ToGuest::Taken(id());
            self.told.taken = true;
            return Some(said);
        }
        if self.lacks_status() && !self.told.want {
            let said = ToGuest::Want(id());
            self.told.want = true;
            return Some(said);
        }
        let seen = self.seen.as_ref().filter(|seen| self.is_wanted(seen) && !ended)?;
        let (item, digest) = (Item::Pod(id()), seen.digest);
        let (route, place) = (config.route(seen.route.as_deref()), seen.place.clone());
        let said = ToGuest::Put { item, digest, route, place };
        self.told.put = Some(digest);
        self.known_there = true;
        self.refusal = None;
        Some(said)
    }

    /// By which address it is known, once that is on record and the provider has the pod.
    pub(super) fn address_statement(&mut self) -> Option<ToGuest> {
        let address = self.address.filter(|_| self.is_to_be_called())?;
        if self.told.address.replace(address) == Some(address) {
            return None;
        }
        Some(ToGuest::Address { pod: self.id.clone(), address })
    }

    fn is_wanted(&self, seen: &HomePod) -> bool {
        !self.gone
            && !seen.terminal
            && seen.deletion_grace_s.is_none()
            && seen.refusal.is_none()
            && self.told.put != Some(seen.digest)
    }

    fn lacks_status(&self) -> bool {
        let readable = |report: &Report| report.status.is_some();
        !self.gone
            && !self.is_terminal()
            && !self.has_status
            && self.report.as_ref().is_some_and(readable)
    }

    /// What was written does not count, nor what is under way, which may rest on the same.
    pub(super) fn make_status_again(&mut self) {
        (self.written, self.stale) = (None, self.writing.is_some());
    }

    /// The next thing to write at home, if it differs from the last.
    pub(super) fn write(&self, tunnel: Tunnel) -> Option<Write> {
        let seen = self.seen.as_ref().filter(|_| !self.gone && self.writing.is_none())?;
        let write = if seen.deletion_grace_s.is_some() && self.is_over() {
            Write::FinishDeletion
        } else if let Some(report) = &self.report {
            // What runs, or ran, is told of, whatever would be said to it now.
            self.status_write(seen, report, tunnel)?
        } else {
            Write::Refusal(seen.refusal.as_ref().or(self.refusal.as_ref())?.clone())
        };
        (self.written.as_ref() != Some(&write)).then_some(write)
    }

    fn status_write(&self, seen: &HomePod, report: &Report, tunnel: Tunnel) -> Option<Write> {
        let status = report.status.filter(|_| self.has_status);
        let outcome = report.stage.outcome().cloned();
        let worth = match report.stage {
            Stage::Live => status.is_some() && !seen.terminal,
            Stage::Ended(_) => status.is_some(),
            Stage::Gone(_) => !seen.terminal,
        };
        let reach = self.reach(tunnel, report);
        worth.then_some(Write::Status { status, outcome, reach })
    }

    /// It was given to the provider and may run there.
    pub(super) fn is_to_be_called(&self) -> bool {
        let live = self.report.as_ref().is_none_or(|report| report.stage == Stage::Live);
        !self.gone && self.seen.is_some() && self.told.put.is_some() && live
    }

    pub(super) fn reach(&self, tunnel: Tunnel, report: &Report) -> Reach {
        let Some(seen) = &self.seen else { return Reach::Not };
        let at = |address, second| Reach::At { address, second };
        let shown = seen.pod_ip.map_or(Reach::Not, |address| at(address, seen.second_ip));
        if report.stage != Stage::Live {
            return shown;
        }
        let same = self.address.is_some() && self.address == seen.pod_ip;
        match (tunnel, self.in_force) {
            (Tunnel::Off, _) | (Tunnel::Agreed(_), Some(None)) => Reach::Not,
            // What is shown since earlier stays, though a node of home's has not come back yet.
            (Tunnel::Agreed(_), _) if self.carried == Some(None) && !same => Reach::Not,
            (Tunnel::Agreed(_), Some(address)) if Some(address) == self.carried => {
                // What is shown since earlier stays until the provider has said otherwise.
                let earlier = seen.second_ip.filter(|_| same);
                let second = self.second.carried.unwrap_or(earlier);
                address.map_or(Reach::Not, |address| at(address, second))
            }
            // It is what is shown since earlier, and stays.
            (Tunnel::Awaited | Tunnel::Agreed(_), _) if same => shown,
            // All addresses of the range are taken.
            (Tunnel::Agreed(_), None) if self.is_to_be_called() && self.address.is_none() => {
                Reach::Not
            }
            (Tunnel::Awaited | Tunnel::Agreed(_), _) => Reach::Awaited,
        }
    }
}
