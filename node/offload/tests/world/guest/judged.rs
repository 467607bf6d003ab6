//! What is judged of the provider's side, from outside.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mercato_offload::address::GuestAddress;
use mercato_offload::guest::RecordKey;
use mercato_offload::key::{ObjectKey, Uid};
use mercato_protocol::id::Digest;

use super::super::there::{Pod, guest_address, seen};
use super::Provider;

impl Provider {
    /// Packets for a guest, by the address that home shows, reach it where it is now.
    pub(crate) fn brings_to(&self, uid: &Uid, address: IpAddr) -> bool {
        let there = self.pods.values().find(|pod| pod.id.uid == *uid).map(guest_address);
        let of = |of: &GuestAddress| of.address == address && Some(of.guest) == there;
        self.mapped.get(uid).is_some_and(of)
    }

    pub(crate) fn ever_brought_to(&self, uid: &Uid, address: IpAddr) -> bool {
        self.ever.contains(&(uid.clone(), address))
    }

    /// Nobody answers for who has ended.
    pub(crate) fn brings_to_the_living_alone(&self) -> bool {
        let live =
            |uid: &Uid| self.pods.values().any(|pod| pod.id.uid == *uid && pod.terminal.is_none());
        self.mapped.keys().all(live)
    }

    pub(crate) fn check(&self) {
        assert_eq!(self.twice, None, "a uid ran twice");
    }

    pub(crate) fn running(&self) -> BTreeMap<Uid, Digest> {
        self.pods.values().map(|pod| (pod.id.uid.clone(), pod.digest)).collect()
    }

    /// Ended, so that its content changes no more.
    pub(crate) fn is_fixed(&self, uid: &Uid) -> bool {
        let ended = |pod: &Pod| pod.terminal.is_some() || pod.deletion.is_some();
        self.pods.values().any(|pod| pod.id.uid == *uid && ended(pod))
    }

    pub(crate) fn configs(&self) -> BTreeMap<ObjectKey, Digest> {
        self.configs.clone()
    }

    pub(crate) fn statuses(&self) -> BTreeMap<Uid, Digest> {
        let status = |pod: &Pod| seen(pod).pod.map(|seen| (pod.id.uid.clone(), seen.status));
        self.pods.values().filter_map(status).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let pod = |key: &RecordKey| matches!(key, RecordKey::Pod(_));
        self.session.is_empty()
            && self.pods.is_empty()
            && self.configs.is_empty()
            && !self.records.keys().any(pod)
    }
}
