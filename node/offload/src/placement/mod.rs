//! What is decided of guests at the provider, before anything is written: pure, from what is
//! wanted and what stands in the cluster. Whoever performs the writes, a client of an API server
//! or a simulated cluster, decides nothing of its own.
//!
//! - [`Ownership`]: whose an object is that stands where a guest is to be;
//! - [`Capacity::admit`]: whether a guest object is created, changed, or refused, and what it takes
//!   of what was bought;
//! - [`requests`]: what a pod asks for, as a scheduler counts it;
//! - [`guest_context`]: what a contract imposes on its guests.

mod capacity;
mod ownership;
mod requests;
mod terms;
mod write;

pub use capacity::{Capacity, keeps_running};
pub use ownership::Ownership;
pub use requests::{Amounts, amounts, requests};
pub use terms::{DEFAULT_REQUESTS, GPUS, ProviderTerms, allocatable, gpus, guest_context};
pub use write::{IfAbsent, Write, owned};
