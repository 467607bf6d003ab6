//! What the two sessions say to each other, as it is on the wire. A statement names an
//! object and a digest; the body, where one belongs to it, is put beside the frame by
//! whoever sends it. Statements are levels, not events: a later one about an item
//! replaces an earlier one.

pub use mercato_protocol::workload::{
    EventKind, Frame, Outcome, PodEvent, Refusal, Report, Route, Stage, ToGuest, ToHome,
};
