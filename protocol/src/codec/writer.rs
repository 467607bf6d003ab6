//! Writes CBOR items, each number in its shortest form.

/// Encoded items, one after the other.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// How many there are, where they are counted only.
    counted: Option<usize>,
}

impl Writer {
    /// One that keeps nothing of what is written but its length.
    pub fn counting() -> Self {
        Self { bytes: Vec::new(), counted: Some(0) }
    }

    /// One that has room for so many bytes: as many do not move while they are written.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), counted: None }
    }

    /// All bytes that were written so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// How many bytes were written.
    pub fn length(&self) -> usize {
        self.counted.unwrap_or(self.bytes.len())
    }

    /// Writes an unsigned whole number, as short as it can be.
    pub fn uint(&mut self, n: u64) {
        self.head(0, n);
    }

    /// Writes a truth value, one byte.
    pub fn bool(&mut self, value: bool) {
        self.raw(&[if value { 0xf5 } else { 0xf4 }]);
    }

    /// Writes a byte string with its length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.head(2, bytes.len() as u64);
        self.raw(bytes);
    }

    /// A text string; in normalisation form C, or `check` refuses it.
    pub fn text(&mut self, text: &str) {
        self.head(3, text.len() as u64);
        self.raw(text.as_bytes());
    }

    /// The head of a list of `count` items.
    pub fn array(&mut self, count: usize) {
        self.head(4, count as u64);
    }

    /// The head of a map of `count` entries, which follow in ascending order.
    pub fn map(&mut self, count: usize) {
        self.head(5, count as u64);
    }

    /// Items that are encoded already.
    pub fn raw(&mut self, items: &[u8]) {
        match &mut self.counted {
            Some(counted) => *counted += items.len(),
            None => self.bytes.extend_from_slice(items),
        }
    }

    fn head(&mut self, major: u8, n: u64) {
        let major = major << 5;
        let bytes = n.to_be_bytes();
        match n {
            0..=23 => self.raw(&[major | bytes[7]]),
            24..=0xff => self.raw(&[major | 24, bytes[7]]),
            0x100..=0xffff => {
                self.raw(&[major | 25]);
                self.raw(&bytes[6..]);
            }
            0x1_0000..=0xffff_ffff => {
                self.raw(&[major | 26]);
                self.raw(&bytes[4..]);
            }
            0x1_0000_0000.. => {
                self.raw(&[major | 27]);
                self.raw(&bytes);
            }
        }
    }
}
