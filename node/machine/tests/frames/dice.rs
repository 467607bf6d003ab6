//! Choices that are made of bytes, so that smaller bytes are simpler ones.

/// Bytes, from which one is taken for each choice; where none is left, the first choice is made.
pub(crate) struct Dice<'a>(std::slice::Iter<'a, u8>);

impl<'a> Dice<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.iter())
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or_default()
    }

    /// One of so many.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    /// True in that many of 256 cases.
    pub(crate) fn is(&mut self, of_256: u8) -> bool {
        // Zero is no.
        u8::MAX - self.byte() < of_256
    }

    pub(crate) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}
