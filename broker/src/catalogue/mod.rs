//! What others offer, and what is thought of them: the order book, what a buyer wants of it, the
//! ranking, and whom the owner trusts.

pub(crate) mod book;
pub(crate) mod demand;
pub(crate) mod party;
pub(crate) mod rank;
pub(crate) mod reputation;
pub(crate) mod trust;
