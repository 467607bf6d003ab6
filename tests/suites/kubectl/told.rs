//! How long each step took.

use std::time::Instant;

/// Says how long each step took.
pub(crate) struct Told(Instant);

impl Told {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn step(&mut self, what: &str) {
        println!("{:6.1} s  {what}", self.0.elapsed().as_secs_f64());
        self.0 = Instant::now();
    }
}
