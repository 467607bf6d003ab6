//! What an input of the fuzzer is read as: choices, numbers and bytes, one after the other. Past
//! its end it is all zero, so that each input means something.

/// What is left of an input.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(super) fn word(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// So many bytes, or what is left.
    pub(super) fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// So many bytes, with zeros behind what is left.
    pub(super) fn padded(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = self.take(length).to_vec();
        bytes.resize(length, 0);
        bytes
    }
}
