//! What guests are answered: every kind of name that there is in a home, tricks, and whoever asks
//! without end.

mod asks;
mod samples;
mod server;
mod table;
