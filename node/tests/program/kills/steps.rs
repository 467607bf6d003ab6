//! The steps of a trade at which somebody is killed.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Buyer = 0,
    Seller = 1,
}
pub(super) use Side::{Buyer, Seller};

/// What is under way as somebody is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trade {
    /// An order that the seller's rule accepts.
    Order,
    /// One that its owner accepts,
    Review,
    /// at another price, which the buyer takes.
    Counter,
    /// A lease gets longer.
    Extension,
    /// The order is cancelled while the seller's owner thinks,
    Withdrawal,
    /// or the lease, by the buyer
    Cancel,
    /// or by the seller.
    End,
}
pub(super) use Trade::{Cancel, Counter, End, Extension, Order, Review, Withdrawal};

/// Who dies when its log has this state; without one, before the last word is said, which the
/// other side then says in vain.
pub(super) type Step = (Trade, Side, Option<&'static str>);

pub(super) const STEPS: [Step; 33] = [
    (Order, Buyer, Some("Requested")),
    (Order, Seller, Some("Agreed")),
    (Order, Buyer, Some("Agreed")),
    (Order, Seller, Some("Pending")),
    (Order, Buyer, Some("Pending")),
    (Order, Seller, Some("Active")),
    (Order, Buyer, Some("Active")),
    (Review, Buyer, None),
    (Review, Seller, Some("Review")),
    (Review, Buyer, Some("Review")),
    (Review, Seller, Some("Agreed")),
    (Review, Buyer, Some("Agreed")),
    (Review, Seller, Some("Pending")),
    (Review, Buyer, Some("Pending")),
    (Review, Seller, Some("Active")),
    (Review, Buyer, Some("Active")),
    (Counter, Buyer, None),
    (Counter, Seller, Some("Offered")),
    (Counter, Buyer, Some("Offered")),
    (Counter, Buyer, Some("Agreed")),
    (Counter, Seller, Some("Pending")),
    (Counter, Buyer, Some("Pending")),
    (Counter, Seller, Some("Active")),
    (Extension, Buyer, Some("asked")),
    (Extension, Seller, Some("asked")),
    (Withdrawal, Buyer, Some("Terminated")),
    (Withdrawal, Seller, Some("Terminated")),
    (Withdrawal, Seller, None),
    (Cancel, Buyer, Some("Closed")),
    (Cancel, Seller, Some("Closed")),
    (Cancel, Seller, None),
    (End, Buyer, None),
    (End, Seller, Some("Closed")),
];
