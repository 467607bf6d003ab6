//! Orders and contracts in a few words.

use mercato_broker::Side;
use mercato_protocol::negotiation::State;

use super::text::{called, name};
use crate::admin::Deal;

/// Whether it, or a change of it, waits for the answer of this cluster's owner.
pub(crate) fn is_asked(deal: &Deal) -> bool {
    let change = deal.change.as_ref().is_some_and(|change| change.state == State::Review);
    deal.side == Side::Provider && (deal.state == State::Review || change)
}

/// Whether it is not over.
pub(crate) fn is_running(deal: &Deal) -> bool {
    !matches!(deal.state, State::Closed | State::Terminated | State::Unknown)
}

/// Who the other side is.
pub(crate) fn peer(deal: &Deal) -> String {
    called(deal.peer_name.as_deref(), &deal.peer)
}

/// How far it is, in a word.
pub(crate) fn state(deal: &Deal) -> String {
    if deal.state == State::Review { "in review".to_owned() } else { name(deal.state) }
}
