//! Who has the machine: suites that may have company share it, and one that may not has it to itself, also
//! beside another run of the tests, or one that somebody has started by hand.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::leftovers::ROOT;

/// Waits for the machine, and has it until what is returned is dropped: to itself, or with others that
/// may have company.
///
/// # Errors
/// When the file of the lock cannot be made, as root may.
pub fn take(alone: bool) -> Result<File> {
    let path = Path::new(ROOT).join(".machine");
    fs::create_dir_all(ROOT).with_context(|| format!("make {ROOT} (root may)"))?;
    let file = File::create(&path).with_context(|| format!("make {}", path.display()))?;
    if alone { file.lock() } else { file.lock_shared() }
        .with_context(|| format!("lock {}", path.display()))?;
    Ok(file)
}
