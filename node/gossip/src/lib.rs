//! How offers spread between neighbours.
//!
//! The terms are those of the literature on epidemic protocols (Plumtree, gossipsub):
//!
//! | here | there | module |
//! |---|---|---|
//! | `Announce`: "I have these" | lazy push, IHAVE | `announce` |
//! | `Pull`: "send me your latest of these" | IWANT | `fetch` |
//! | `Push` of what was pulled | the answer to IWANT | `announce` |
//! | `Push` unasked: what ends something, and renewals | eager push | `announce` |
//! | `Root`, `Buckets`, `Ids` | anti-entropy | `reconcile` |
//! | points and bans | peer scores | `penalties` |
//!
//! Of each publisher the latest publication counts. What is new, and accepted by the application,
//! is announced to the neighbours, which pull it, with its body if that is new as well, from the
//! first that has it; what ends something is pushed whole. Two neighbours compare all that they
//! hold now and then, so that whatever got lost is made up for. Only what is whole, a header with
//! its body or what needs none, is kept and announced. A publisher that says two things under one
//! number is proven a fraud, and the proof takes the place of whatever it said.
//!
//! What happens to one publisher's latest:
//!
//! ```text
//!              a neighbour announces it          its answer
//!   unknown ─────────────────────────▶ fetching ───────────▶ new ─────────▶ held
//!      ▲                               ▲  │  ▲               │    Accept     │
//!      │     no answer: the next is    │  │  │               │ Ignore,       │ expires
//!      │     asked; nobody is left:    └──┘  │               ▼ Reject        ▼
//!      └──── back to what it was             └────────────── over ◀──────────┘
//!      ▲                                   something later     │
//!      └───────────────────────────────────────────────────────┘
//!                  nobody would take what is older any more
//! ```
//!
//! What is held, or over, is kept while something later is fetched. What comes unasked skips
//! *fetching*.
//!
//! Pure: the clock and the seed are arguments. Signatures are checked before a message comes in
//! ([`Opened`]); what an offer means, and whether to take it, is the broker's; connections are the
//! network layer's.

mod announce;
mod bit_matrix;
mod bucket;
mod effect;
mod fetch;
mod gossip;
mod index;
mod input;
mod interner;
mod item;
pub mod limits;
mod machine;
mod neighbours;
mod opened;
mod peers;
mod penalties;
mod prefetch;
mod reconcile;
mod step;
mod store;
mod table;

pub use effect::Effect;
pub use gossip::Gossip;
pub use input::{Input, Verdict};
pub use interner::Interner;
pub use item::{Item, News};
pub use opened::{Open, Opened, Screened};
