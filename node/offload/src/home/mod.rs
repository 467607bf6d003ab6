//! The side where pods are made. It tells the provider what is wanted, writes back the
//! statuses that come, and removes a pod only once nothing of it runs any more.

mod addresses;
mod claims;
mod exports;
pub mod leaving;
mod objects;
mod outbox;
pub mod pending;
mod pod;
mod pods;
mod session;
mod waiting;
mod watched;
mod way;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use mercato_protocol::id::{ClusterId, Digest};
use serde::{Deserialize, Serialize};

use crate::address::{Reach, Tunnel};
use crate::key::{Item, ObjectKey, PodId, Uid};
use crate::limits;
use crate::message::{Frame, Outcome, PodEvent, Refusal, Route, ToGuest, ToHome};
pub use session::HomeSession;

/// What a session is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// This cluster.
    pub cluster: ClusterId,
    /// The cluster that the lease is with.
    pub provider: ClusterId,
    /// How many more times the provider may send a pod of ours on; 0 unless the
    /// contract allows transit.
    pub hops: u32,
}

/// Services of a namespace that has more of them than a provider takes: those that are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// How many of them there are.
    pub services: usize,
    /// The first of them by name: the others are those after it.
    pub first: String,
}

impl LeftOut {
    /// The same as it is told once, while there may be more of them each moment: without their number.
    pub(crate) fn told(&self) -> String {
        let (room, first) = (limits::GUEST_NAMESPACE_SERVICES, &self.first);
        format!(
            "a provider takes {room} Services of a namespace, the first by name: those from {first} on are not \
             there for pods that run elsewhere; put them into another namespace"
        )
    }
}

/// With what to do about it.
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (room, Self { services, first }) = (limits::GUEST_NAMESPACE_SERVICES, self);
        let are = if *services == 1 { "is" } else { "are" };
        write!(
            f,
            "a provider takes {room} Services of a namespace, the first by name: {services}, from {first} on, \
             {are} not there for pods that run elsewhere; put them into another namespace"
        )
    }
}

/// A pod bound to the virtual node, as home's API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomePod {
    /// Which.
    pub pod: PodId,
    /// [`crate::forge::digest`] of what would be sent.
    pub digest: Digest,
    /// [`crate::forge::needs`]: what it refers to.
    pub needs: Vec<ObjectKey>,
    /// If deletion was asked for: the grace, in seconds.
    pub deletion_grace_s: Option<u32>,
    /// `status.phase` is `Succeeded` or `Failed`.
    pub terminal: bool,
    /// [`crate::forge::is_counted`]: how it ends is written down before it is removed.
    pub counted: bool,
    /// [`crate::forge::open_gates`]: its readiness gates that are open, by home's word.
    pub gates: Vec<String>,
    /// `status.podIP`, as we wrote it.
    pub pod_ip: Option<IpAddr>,
    /// The one of the other family in `status.podIPs`, likewise.
    pub second_ip: Option<IpAddr>,
    /// For a pod that is itself a guest here: how it came.
    pub route: Option<Box<Route>>,
    /// What its guest namespace is to be called; none: the provider's to name.
    pub place: Option<String>,
    /// How long its provider may be silent before it is not ready, in ms.
    pub patience_ms: u64,
    /// Why it must not leave at all (its namespace is not opted in, say).
    pub refusal: Option<Refusal>,
    /// Whether the virtual node answers for it where there is a refusal.
    pub stand_in: StandIn,
}

/// Whether a virtual node answers for a pod that stays at home as for one that runs: a DaemonSet that
/// tolerates every taint has one there, and its roll-out waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StandIn {
    /// Nothing is answered for the pod, which waits.
    #[default]
    Never,
    /// It may, unless the provider may hold the pod.
    Possible,
    /// It does, by the pod's own status: the pod has never left, and does not any more.
    Written,
}

/// What is to be with a claim at the provider, as home's cluster has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// This lease is chosen for it, and no volume of it is there yet: it is to be, with this content.
    Make(Digest),
    /// Its volume is there: it is to stay. Where the provider has it no more, what was stored is lost,
    /// and it is not made anew.
    Keep(Digest),
    /// It goes, with what is stored.
    Discard,
}

/// What came of a [`Wish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// The provider holds the claim: its volume may be there at home.
    Held,
    /// The provider holds the claim no more, whose volume is there at home: what was stored is lost.
    Lost,
    /// The provider has removed the claim, with what was stored.
    Discarded,
    /// The provider holds a claim of which home wishes nothing: what is stored there stays.
    Stray,
}

/// What happens to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The link to the provider is up. Also said when one link has replaced another.
    LinkUp,
    /// The link is down.
    LinkDown,
    /// The provider has not been heard over the link for some time, though that is not down.
    Silent {
        /// How long ago its last word came, in ms.
        for_ms: u64,
    },
    /// The provider is heard over the link again.
    Heard,
    /// The provider said this. Bodies that came beside it are kept by digest outside.
    Frame(Frame<ToHome>),
    /// The whole list, the most recent one, as a watch starts or starts again. A pod that
    /// is missing from it is asked for by name before anything is concluded.
    Synced(Vec<HomePod>),
    /// A pod was made or changed.
    Pod(HomePod),
    /// Its watch saw the deletion.
    PodGone(Uid),
    /// The API server said, asked for the name, that there is no such pod or that it has another
    /// uid. What its watch says of it until it has seen that, too, is older.
    PodMissing(Uid),
    /// Somebody else has written over the pod's status: it is written again.
    Overwritten(Uid),
    /// A watched object is there with this content, or is certainly not there.
    Object {
        /// Which.
        key: ObjectKey,
        /// Of what would be sent; none if there is no such object.
        digest: Option<Digest>,
    },
    /// A claim of this lease is so at home, or is said once more to be so. Of a claim that is not told of
    /// nothing is concluded.
    Claim {
        /// The claim, by its uid.
        key: ObjectKey,
        /// What is to be with it.
        wish: Wish,
        /// What its guest namespace is to be called; none: the provider's to name.
        place: Option<String>,
    },
    /// All Services of a namespace that pods leave, and where their pods are, with what would be
    /// sent; each change is an [`Input::Object`].
    Services {
        /// The name that the namespace has at home.
        namespace: String,
        /// All there are of both kinds.
        objects: BTreeMap<ObjectKey, Digest>,
    },
    /// These namespaces and no others are open: while any pod leaves, their Services are at the provider, though
    /// no pod of theirs is. It is said before the list of pods, and before the Services of one that is new.
    Open(
        /// By the name that the namespace has at home: what its guest namespace is to be called; none: the
        /// provider's to name.
        BTreeMap<String, Option<String>>,
    ),
    /// A body that was to go with what was said did not: the provider's release takes none of that
    /// size, and would end the stream.
    Withheld {
        /// The pod or other object that it is of.
        item: Item,
        /// The content that did not go.
        digest: Digest,
        /// Why it did not, for its owner.
        refusal: Refusal,
    },
    /// The write that was under way succeeded.
    Written(Uid),
    /// It failed for now: it is repeated with back-off.
    NotWritten {
        /// Whose.
        uid: Uid,
        /// The bytes of the guest's status are not here: they are asked for.
        missing: bool,
    },
    /// How it is with the tunnel to the provider.
    Tunnel(Tunnel),
    /// No packet has come through that tunnel for some time, though some were asked for.
    TunnelSilent {
        /// How long ago the last one came, in ms.
        for_ms: u64,
    },
    /// Packets come through it again.
    TunnelHeard,
    /// The answer to [`Effect::Carry`]: packets for this pod go to the provider, or cannot.
    Carried(PodId, IpAddr, bool),
    /// The answer to [`Effect::CarrySecond`] about the pod of this address, said again whenever it
    /// changes: packets go to the provider by this second address too; none: by none.
    SecondCarried(PodId, IpAddr, Option<IpAddr>),
    /// The deadline of `wakeup` has come.
    Wake,
}

/// A write to a home pod. One per pod is under way at a time; each answers with
/// [`Input::Written`], [`Input::NotWritten`] or [`Input::PodMissing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// What [`crate::forge::home_status`] makes of these.
    Status {
        /// Digest of the guest's status; none if it is not known any more.
        status: Option<Digest>,
        /// How it ended, if it did.
        outcome: Option<Outcome>,
        /// Whether home reaches it, and by which address.
        reach: Reach,
        /// Why the provider refuses the resize that the pod asks for, if it does.
        resize: Option<Refusal>,
    },
    /// Pending, with this waiting reason, and an event.
    Refusal(Refusal),
    /// Running and ready without an address, as far as a status goes, with this reason why nothing of
    /// it runs, and an event.
    StandIn(Refusal),
    /// Delete with grace 0 and the uid as precondition.
    FinishDeletion,
}

/// What a session wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Keep this record, before any effect that follows.
    Persist(Record),
    /// Remove this record.
    Erase(RecordKey),
    /// Say this to the provider, with the bodies of each [`ToGuest::Put`] in it, as far
    /// as they are here and fit: the other side asks for what did not come.
    Send(Frame<ToGuest>),
    /// Tell of this object with [`Input::Object`], now and whenever it changes.
    Watch(ObjectKey),
    /// No longer.
    Unwatch(ObjectKey),
    /// Ask the API server for this pod by name, until it answers: [`Input::PodMissing`], or
    /// [`Input::Pod`], unless its watch is about to tell of it.
    Confirm(PodId),
    /// Write to this pod, with its uid as precondition.
    Write(PodId, Write),
    /// Tell the owner that the provider refuses this object, or a change to a pod that
    /// is there.
    ObjectRefused(ObjectKey, Refusal),
    /// What came of home's [`Wish`] for this claim.
    Claim(ObjectKey, Granted),
    /// Tell the owner of this pod what the kubelet over there says of it.
    Event(PodId, PodEvent),
    /// Carry packets for this pod to the provider, by this address and by no other; answered by
    /// [`Input::Carried`].
    Carry(PodId, IpAddr),
    /// The provider brings packets of the second family to the pod of this address, or no longer:
    /// carry them too, or not; answered by [`Input::SecondCarried`].
    CarrySecond(PodId, IpAddr, bool),
    /// Carry packets for this pod no longer.
    Uncarry(PodId),
}

/// What a session must remember.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The last epoch used.
    Epoch(u64),
    /// This pod was removed at home while the provider may hold it.
    Tombstone(PodId),
    /// By this address everyone knows this pod.
    Address(PodId, IpAddr),
}

/// What a record is kept under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RecordKey {
    /// Of [`Record::Epoch`].
    Epoch,
    /// Of [`Record::Tombstone`].
    Tombstone(Uid),
    /// The key of a [`Record::Address`].
    Address(Uid),
}

impl Record {
    /// Where it is kept; a later record of the same key replaces it.
    pub fn key(&self) -> RecordKey {
        match self {
            Self::Epoch(_) => RecordKey::Epoch,
            Self::Tombstone(pod) => RecordKey::Tombstone(pod.uid.clone()),
            Self::Address(pod, _) => RecordKey::Address(pod.uid.clone()),
        }
    }
}
