//! How a pod lives elsewhere. Two pure state machines per lease, joined by a link
//! that may lose, double, delay and cut:
//!
//! - [`home::HomeSession`], where the pod was made, says what is wanted and writes back
//!   the status that it is told;
//! - [`guest::GuestSession`], at the provider, makes, watches and removes the guest objects;
//! - [`message`] is what they say to each other, through an ordered [`channel`];
//! - [`forge`] turns a home object into a guest object and a guest status into a home
//!   status, as functions over raw JSON;
//! - [`body`] is how large an object may be that crosses, and why one is refused;
//! - [`address`] is by which address a pod is known here and there;
//! - [`placement`] decides what is done in a cluster: which pods leave home, how the virtual node
//!   looks, whose an object is at the provider, and whether there is room for it;
//! - [`put_back`] is whether what was written stands as it was, and what is told where it does not;
//! - [`time`] is how Kubernetes writes times.
//!
//! The bodies of objects stay outside: the sessions hold keys, uids and digests, and
//! whoever drives them keeps the bytes by digest. Talking to an API server, chunking
//! bodies, and signing are left to the rooms above.

pub mod address;
pub mod body;
pub mod channel;
pub mod forge;
pub mod guest;
pub mod home;
pub mod key;
pub mod limits;
pub mod message;
mod output;
pub mod placement;
pub mod put_back;
mod retry;
pub mod time;
