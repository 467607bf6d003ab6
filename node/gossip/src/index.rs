//! Numbers that stand for rows. Each number space has a type of its own.

/// A number that says where a row is. It is used again once the row is gone.
pub(crate) trait Index: Copy + Eq {
    fn new(number: u32) -> Self;
    /// Where the row with this number is in a list of all.
    fn position(self) -> usize;
}

macro_rules! index {
    ($($(#[$doc:meta])+ $name:ident;)+) => {$(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name(pub(crate) u32);

        impl Index for $name {
            fn new(number: u32) -> Self {
                Self(number)
            }

            fn position(self) -> usize {
                self.0 as usize
            }
        }
    )+};
}

index! {
    /// A publisher, the same for all gossips that share an interner.
    PublisherIndex;
    /// A neighbour of one gossip, below [`limits::NEIGHBOURS`](crate::limits::NEIGHBOURS).
    NeighbourIndex;
    /// A row of the fetches of one gossip.
    RowIndex;
}
