//! What the agent's parts are shown of each other, and whom bounded tables keep first: partners,
//! then members, then strangers.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use mercato_broker::{Broker, Deal, Standing};
use mercato_gossip::Gossip;
use mercato_protocol::id::ClusterId;
use mercato_protocol::negotiation::State;
use mercato_protocol::time::Now;

use crate::peers::Peers;
use crate::record::Change;
use crate::request::Request;

/// What a part is given beside its input: the time, and the parts that it may look at; and what it
/// wants done, in order.
pub(crate) struct Turn<'a> {
    pub(crate) now: Now,
    pub(crate) context: Context<'a>,
    pub(crate) out: Vec<Request>,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(now: Now, context: Context<'a>) -> Self {
        Self { now, context, out: Vec::new() }
    }

    pub(crate) fn push(&mut self, request: impl Into<Request>) {
        self.out.push(request.into());
    }

    /// Keeps what nothing waits for: [`Request::Note`].
    pub(crate) fn note<C: Into<Change>>(&mut self, changes: impl IntoIterator<Item = C>) {
        self.extend(changes.into_iter().map(|change| Request::Note(change.into())));
    }

    pub(crate) fn extend<R: Into<Request>>(&mut self, requests: impl IntoIterator<Item = R>) {
        self.out.extend(requests.into_iter().map(Into::<Request>::into));
    }
}

/// The parts that others look at, as they are while an input is handled.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) broker: &'a Broker,
    pub(crate) gossip: &'a Gossip,
    pub(crate) peers: &'a Peers,
}

impl<'a> Context<'a> {
    pub(crate) fn of(broker: &'a Broker, gossip: &'a Gossip, peers: &'a Peers) -> Self {
        Self { broker, gossip, peers }
    }

    /// Whether the owner trusts a cluster, or there is a contract: to be asked of many at once.
    pub(crate) fn partners(self) -> impl Fn(&ClusterId) -> bool + 'a {
        let deals = deals_with(self.broker);
        move |cluster| self.peers.standing(cluster) == Standing::Trusted || deals(cluster)
    }

    /// The deals whose contracts are in force.
    pub(crate) fn contracts(self) -> impl Iterator<Item = &'a Deal> {
        self.broker.deals().filter(|deal| is_bound(deal))
    }
}

/// Whether there is a contract with a cluster, or may be one: to be asked of many at once.
pub(crate) fn deals_with(broker: &Broker) -> impl Fn(&ClusterId) -> bool {
    let with: LazyCell<BTreeSet<ClusterId>, _> =
        LazyCell::new(|| broker.deals().map(Deal::peer).collect());
    move |cluster| with.contains(cluster)
}

/// Whether a deal's contract is in force.
pub(crate) fn is_bound(deal: &Deal) -> bool {
    match deal.state() {
        State::Pending | State::Active | State::Suspended | State::Reclaiming => true,
        State::Unknown
        | State::Requested
        | State::Review
        | State::Agreed
        | State::Offered
        | State::Closed
        | State::Terminated => false,
    }
}
