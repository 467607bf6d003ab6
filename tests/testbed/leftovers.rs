//! What a bed leaves that the kernel does not remove with its processes: control
//! groups, and its folder below [`ROOT`].

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::wait;

/// Each bed has a folder here, locked by its reaper while it lives.
pub const ROOT: &str = "/run/mercato-lab";

const CGROUPS: &str = "/sys/fs/cgroup";

/// The control group, in every hierarchy, below which a bed's nodes put theirs.
#[must_use]
pub fn cgroup_name(bed: &str) -> String {
    format!("mercato-lab-{bed}")
}

/// The mounted hierarchies: several (version 1) or the one (version 2).
///
/// # Errors
/// When control groups are not mounted.
pub fn cgroup_hierarchies() -> Result<Vec<PathBuf>> {
    let root = Path::new(CGROUPS);
    if root.join("cgroup.controllers").exists() {
        return Ok(vec![root.to_owned()]);
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(root).context("control groups are not mounted")? {
        let entry = entry?;
        // Symbolic links are second names, such as cpu for cpu,cpuacct.
        if entry.file_type()?.is_dir() {
            all.push(entry.path());
        }
    }
    all.sort();
    Ok(all)
}

/// Makes a bed's folder and locks it for as long as the returned file is open.
///
/// # Errors
/// When a bed of that name lives, or the folder cannot be made.
pub fn claim(dir: &Path) -> Result<File> {
    let _guard = guard()?;
    fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let lock = File::create(dir.join("lock"))?;
    lock.try_lock().with_context(|| format!("the bed in {} lives", dir.display()))?;
    Ok(lock)
}

/// Held while a bed is claimed or swept away: a folder that is not locked yet is
/// not left over.
fn guard() -> Result<File> {
    fs::create_dir_all(ROOT).with_context(|| format!("make {ROOT} (root may)"))?;
    let guard = File::create(Path::new(ROOT).join(".lock"))?;
    guard.lock()?;
    Ok(guard)
}

/// Removes what the bed in `dir`, whose processes have been ended, left.
///
/// # Errors
/// When a control group stays busy for ten seconds.
pub fn remove(dir: &Path) -> Result<()> {
    let bed =
        dir.file_name().and_then(|name| name.to_str()).context("a bed's folder has a name")?;
    for hierarchy in cgroup_hierarchies()? {
        let group = hierarchy.join(cgroup_name(bed));
        wait::until_blocking(
            &format!("control group {} is free", group.display()),
            Duration::from_secs(10),
            || Ok(!group.exists() || remove_group(&group).is_ok()),
        )?;
    }
    Ok(())
}

/// Removes a control group and those below it, deepest first.
fn remove_group(group: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_group(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}

/// Every bed's folder, and whether its reaper lives.
///
/// # Errors
/// When [`ROOT`] cannot be read.
pub fn beds() -> Result<Vec<(PathBuf, bool)>> {
    let mut all = Vec::new();
    if !Path::new(ROOT).exists() {
        return Ok(all);
    }
    for entry in fs::read_dir(ROOT).with_context(|| format!("read {ROOT}"))? {
        let dir = entry?.path();
        if !dir.is_dir() {
            continue;
        }
        let lives = match File::open(dir.join("lock")).map(|lock| lock.try_lock()) {
            Ok(Ok(())) | Err(_) => false,
            Ok(Err(TryLockError::WouldBlock)) => true,
            Ok(Err(TryLockError::Error(error))) => return Err(error.into()),
        };
        all.push((dir, lives));
    }
    all.sort();
    Ok(all)
}

/// Removes what beds left whose reaper was killed; returns how many there were.
///
/// # Errors
/// When something cannot be removed.
pub fn sweep() -> Result<usize> {
    let _guard = guard()?;
    let dead: Vec<_> = beds()?.into_iter().filter(|(_, lives)| !lives).collect();
    for (dir, _) in &dead {
        remove(dir)?;
        fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    Ok(dead.len())
}
