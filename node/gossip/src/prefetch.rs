//! Reading what is about to be worked on. What is kept of ten thousand publishers is far away
//! from a processor, which fetches many things in the time of one if it need not know one for
//! the next. So all of it is read before, without a question.

use std::hint::black_box;

/// Reads all of these, for nothing but to have them near.
pub(crate) fn prefetch(values: impl Iterator<Item = usize>) {
    black_box(values.sum::<usize>());
}
