//! Home's names for its guests at a provider: what each guest is answered, and the name server that
//! answers it.
//!
//! `zone` has the names of one lease and `targets` their ports; `answer` decides by them and touches
//! nothing; `reply` is what goes back on the wire. `server` has the sockets and `connection` what is asked on one;
//! `resolver` looks up, within what `guests` and `places` leave each guest. `upstreams` chooses whom to
//! ask elsewhere what nobody here knows, `forward` asks, and `cache` keeps the answers. `unopened`
//! has for what guests ask that is not open to them. Who is a guest and which names there are is said by
//! others.

#![allow(clippy::disallowed_methods, reason = "floor 3 has clocks, and draws numbers of questions")]

mod answer;
mod cache;
mod connection;
mod dashed;
mod forward;
mod guests;
mod knowledge;
pub mod limits;
mod places;
mod reply;
mod resolver;
mod server;
mod stream;
mod targets;
mod unopened;
mod upstreams;
mod zone;

pub use answer::{Answer, Asker, Telling, answer};
pub use knowledge::Knowledge;
pub use limits::Bounds;
pub use server::NameServer;
pub use zone::Zone;
