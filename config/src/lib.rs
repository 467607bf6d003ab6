//! Text to typed settings: the configuration file, and those of its parts that a manifest may
//! have, with their schema; in the market's own syntax for quantities, durations and prices.
//!
//! Reading files and the environment is left to the daemon, what the settings mean to
//! the crates that they are for.

pub mod admin_port;
mod egress;
mod explained;
pub mod gateway;
mod policy;
pub mod settings;
mod share;
mod switch;
mod text;
pub mod webhook;
mod written;

pub use egress::{Egress, egress, range};
pub use mercato_broker::syntax::{
    FromText, Gpus, Seconds, Show, SyntaxError, amount, quantity, taint,
};
pub use policy::Buy;
pub use settings::{Settings, SettingsError};
pub use share::{GpuNodes, Share, bytes};
pub use switch::Switch;
pub use written::{DURATION, Text, Written};
