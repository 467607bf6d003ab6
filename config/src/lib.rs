//! Text to typed settings: one syntax for quantities, durations and prices wherever a
//! person writes them, and the configuration file.
//!
//! An error points at the character, says what was expected and gives an example.
//! Reading files and the environment is left to the daemon, what the settings mean to
//! the rooms that they are for.

pub mod amount;
mod duration;
mod money;
pub mod quantity;
mod reader;
pub mod settings;
mod text;

pub use duration::Seconds;
pub use quantity::Gpus;
pub use settings::{Settings, SettingsError};
pub use text::{FromText, Show, SyntaxError};
