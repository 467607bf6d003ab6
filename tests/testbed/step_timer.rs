//! A long test tells how long each of its steps took.

use std::future::Future;
use std::time::Instant;

use anyhow::{Context as _, Result};

/// Since when the present step is under way.
#[derive(Debug)]
pub struct StepTimer(Instant);

impl StepTimer {
    /// The first step begins.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// A step is done, and the next one begins.
    pub fn step(&mut self, what: &str) {
        println!("{:6.1} s  {what}", self.0.elapsed().as_secs_f64());
        self.0 = Instant::now();
    }

    /// Takes a step whose name is what it is about.
    ///
    /// # Errors
    /// The step's own, under its name.
    pub async fn take(
        &mut self,
        name: &'static str,
        step: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        step.await.context(name)?;
        self.step(name);
        Ok(())
    }
}
