//! What the guest namespaces of a lease are called at the provider: as home would have it, or
//! after the home namespace and its cluster. Whether the cluster can have a namespace of that
//! name is not known here: where it cannot, its guests are refused.

use std::collections::BTreeSet;

use mercato_broker::Desired;
use mercato_offload::message::{Frame, ToGuest};
use mercato_protocol::id::Digest;
use mercato_protocol::time::Now;
use mercato_protocol::workload::is_reserved;

use super::Lease;
use crate::limits;
use crate::record::Record;
use crate::request::Request;

impl Lease {
    /// Hears what guest namespaces the items that the consumer sends are to be in, and under
    /// which names; `peer` is what the consumer's cluster is called.
    pub(super) fn hear_names(&mut self, frame: &Frame<ToGuest>, peer: Option<&str>) {
        // One that is suspended may open again, and home does not say it again then.
        if !matches!(self.spec.desired, Desired::Open | Desired::Suspended) {
            return;
        }
        self.heard.clear();
        for statement in &frame.statements {
            let ToGuest::Put { item, place, .. } = statement else { continue };
            let home = item.namespace();
            self.heard.insert(home.to_owned());
            if self.is_named(home, place.as_deref(), peer) {
                self.unmet.remove(home);
            } else if self.unmet.len() < limits::NAMESPACES {
                self.unmet.insert(home.to_owned(), place.clone());
            }
        }
    }

    /// Whether the namespace has the name that it is to have.
    fn is_named(&self, home: &str, place: Option<&str>, peer: Option<&str>) -> bool {
        let Some(guest) = self.namespaces.get(home) else { return false };
        match place {
            Some(place) => place == guest,
            None => self.own_names(home, peer).contains(guest),
        }
    }

    /// Whether home has chosen none of the names.
    pub(super) fn names_are_ours(&self, peer: Option<&str>) -> bool {
        let ours = |(home, name): (&String, &String)| self.own_names(home, peer).contains(name);
        self.namespaces.iter().all(ours)
    }

    /// Whether a guest namespace has to be named, if that can be.
    pub(super) fn is_to_name(&self) -> bool {
        !self.unmet.is_empty()
    }

    /// Names them, where there is none yet, and anew where nothing of the home namespace is
    /// held; `taken` are names that other leases have. Says which home namespaces they are of.
    pub(super) fn name(
        &mut self,
        now: Now,
        peer: Option<&str>,
        taken: &BTreeSet<String>,
        out: &mut Vec<Request>,
    ) -> Vec<String> {
        let mut named = Vec::new();
        for (home, place) in std::mem::take(&mut self.unmet) {
            if !self.is_wanted(&home) {
                continue; // what was to be in it is over, and never came there
            }
            let is_new = !self.namespaces.contains_key(&home);
            if is_new && self.namespaces.len() == limits::NAMESPACES {
                self.give_up_one(now, &named);
            }
            if !self.can_name(now, &home) {
                self.unmet.insert(home, place);
                continue;
            }
            let guest = place.unwrap_or_else(|| self.free_name(&home, peer, taken));
            if self.namespaces.insert(home.clone(), guest).is_some() {
                self.moved_ms = Some(now.mono_ms);
            }
            named.push(home);
        }
        if !named.is_empty() {
            out.push(self.keep(Record::Namespaces(self.id(), self.namespaces.clone())).into());
        }
        named
    }

    /// Gives up a namespace in which there is nothing and nothing is to be, if there is one, for
    /// another that cannot wait until that is looked at.
    fn give_up_one(&mut self, now: Now, named: &[String]) {
        let is_idle = |home: &&String| !named.contains(home) && !self.is_wanted(home);
        let idle = self.namespaces.keys().find(is_idle).cloned();
        if let Some(idle) = idle.filter(|_| self.may_go.take(now)) {
            self.namespaces.remove(&idle);
        }
    }

    /// Something was said, or happened: whether each namespace is still needed is looked at
    /// some time after.
    pub(super) fn look_later(&mut self, now: Now) {
        if self.look_ms.is_none() && !self.namespaces.is_empty() {
            self.look_ms = Some(now.mono_ms + limits::EMPTY_MS);
        }
    }

    /// Gives up the namespaces of which nothing was here at the last look and nothing is now:
    /// namespaces come and go at home, for as long as the lease lasts. Not while it is not known
    /// what is here, nor while home cannot say what it wants.
    pub(super) fn give_up_empty(&mut self, now: Now, out: &mut Vec<Request>) {
        if self.look_ms.is_none_or(|at_ms| at_ms > now.mono_ms) {
            return;
        }
        self.look_ms = None;
        let mut before = std::mem::take(&mut self.empty);
        let is_open = matches!(self.spec.desired, Desired::Open | Desired::Suspended);
        let Some(mentioned) = self.mentioned().filter(|_| is_open && self.linked) else { return };
        let is_empty = |home: &&String| !mentioned.contains(home.as_str());
        let empty: Vec<String> = self.namespaces.keys().filter(is_empty).cloned().collect();
        let mut given_up = false;
        for home in empty {
            if before.remove(&home) && self.may_go.take(now) {
                self.namespaces.remove(&home);
                given_up = true;
            } else {
                self.empty.insert(home);
            }
        }
        if !self.empty.is_empty() {
            self.look_later(now);
        }
        if given_up {
            out.push(self.keep(Record::Namespaces(self.id(), self.namespaces.clone())).into());
        }
    }

    /// Whether anything of it is known, or has just been heard of.
    fn is_wanted(&self, home: &str) -> bool {
        self.heard.contains(home) || self.mentions(home)
    }

    fn can_name(&self, now: Now, home: &str) -> bool {
        if self.namespaces.contains_key(home) {
            !self.holds(home) && self.may_move(now)
        } else {
            self.namespaces.len() < limits::NAMESPACES
        }
    }

    /// Whether the last got its name so long ago that another may.
    fn may_move(&self, now: Now) -> bool {
        let since_ms = self.moved_ms.map(|at| now.mono_ms.saturating_sub(at));
        since_ms.is_none_or(|since_ms| since_ms >= limits::MOVE_MS)
    }

    /// The first of its own names that no lease has, this one included.
    fn free_name(&self, home: &str, peer: Option<&str>, taken: &BTreeSet<String>) -> String {
        let own = |name: &str| self.namespaces.values().any(|guest| guest == name);
        let free = |name: &String| is_label(name) && !taken.contains(name) && !own(name);
        let names = self.own_names(home, peer);
        let last = names.last().cloned().unwrap_or_default();
        names.into_iter().find(free).unwrap_or(last)
    }

    /// What a guest namespace is called that is to have no name in particular: `shop-rome`;
    /// where another lease has that, or it is too long, with the contract's id.
    fn own_names(&self, home: &str, peer: Option<&str>) -> Vec<String> {
        names_of(home, peer, &self.id().short())
    }
}

/// The names after a home namespace, of which none is the cluster's own: a home namespace may
/// be called `kube`, and a cluster `flannel`.
fn names_of(home: &str, peer: Option<&str>, short: &str) -> Vec<String> {
    let stem = match is_reserved(&format!("{home}-{short}")) {
        true => format!("guest-{home}"),
        false => home.to_owned(),
    };
    let room = limits::NAMESPACE_BYTES - short.len() - 1;
    let head = stem.get(..room.min(stem.len())).unwrap_or(&stem).trim_end_matches('-');
    let plain = peer.map(|peer| format!("{stem}-{}", slug(peer)));
    let with_id = format!("{head}-{short}");
    let whole = format!("{:.63}", Digest::of(home.as_bytes()));
    let names = plain.into_iter().chain([with_id, whole]);
    names.filter(|name| !is_reserved(name)).collect()
}

/// What people call a cluster, as part of a DNS label.
fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(plain).collect::<String>().trim_matches('-').to_owned()
}

/// Whether a namespace may be called so: a DNS label (RFC 1123).
fn is_label(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let bytes = name.as_bytes();
    let fits = bytes.len() <= limits::NAMESPACE_BYTES;
    fits && bytes.iter().all(inner) && edge(bytes.first()) && edge(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_guest_namespace_is_called_as_one_of_the_clusters_own() {
        let names = |home: &str, peer: &str| names_of(home, Some(peer), "1bec4dc5");
        assert_eq!(names("shop", "Rome")[..2], ["shop-rome", "shop-1bec4dc5"]);
        assert_eq!(names("kube", "flannel")[..2], ["guest-kube-flannel", "guest-kube-1bec4dc5"]);
        for home in ["kube", "kube-system", "kube-public", "openshift", "cattle", "gke", "default"]
        {
            for peer in ["system", "flannel", "monitoring", "", "-", "a.b"] {
                let all = names(home, peer);
                assert!(all.len() >= 2 && !all.iter().any(|name| is_reserved(name)), "{all:?}");
                let long = names(&format!("{home}-{}", "x".repeat(62 - home.len())), peer);
                assert!(long.iter().any(|name| is_label(name) && !is_reserved(name)), "{long:?}");
            }
        }
    }
}
