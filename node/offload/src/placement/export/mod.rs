//! What leaves home: what the owner of a namespace allows, and what becomes of a pod that is bound
//! to a virtual node; and what guests may call at home by that.

mod admission;
mod consent;
mod crossing;
mod destination;
mod guest_name;
mod left_behind;
mod opens;
mod opt_in;
mod patience;
mod pod;
mod refused;
mod secrets;
mod stand_in;
mod targets;
mod toleration;
mod unopened;
mod when_leaving;

pub use admission::{admission, admitted, is_outdated, must_leave, placed_by};
pub use consent::{Consent, LeaseNode, Opened, callable};
pub use crossing::{Crossing, service_of};
pub use destination::{Destination, Destinations, reached};
pub use guest_name::GuestName;
pub use left_behind::is_left_behind;
pub use opens::{Listed, Opens};
pub use opt_in::{Leave, OptIn, Scope, Strategy};
pub use patience::Patience;
pub use pod::{BoundNode, Departure, Permit, staying};
pub use refused::{REFUSED, refusal_text, refused_status};
pub use secrets::Secrets;
pub use stand_in::{STANDS_IN, said as stands_in_for, stand_in_status};
pub use targets::Targets;
pub use unopened::{NOT_OPEN, SoughtService, Standing, ToldUnopened, standing};
pub use when_leaving::WhenLeaving;
