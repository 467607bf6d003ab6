//! Bursts: what a consumer's broker buys by itself for pods without room, of several providers, over a
//! link that loses nothing, with a crash at any effect.

mod crash;
mod kept;
mod providers;
mod story;
mod world;
