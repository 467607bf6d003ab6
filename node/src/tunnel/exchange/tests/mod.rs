//! Two exchanges over a link that loses and reorders, whose programs die and lose their folders;
//! and what one of them does with each word of a peer.

mod converge;
mod pace;
mod pair;
mod words;
