//! Text to typed settings: the configuration file, in the market's own syntax for
//! quantities, durations and prices.
//!
//! Reading files and the environment is left to the daemon, what the settings mean to
//! the rooms that they are for.

pub mod policy;
pub mod settings;
mod text;

pub use mercato_broker::syntax::{FromText, Gpus, Seconds, Show, SyntaxError, amount, quantity};
pub use settings::{Settings, SettingsError};
