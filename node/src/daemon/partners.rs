//! Where peers with a lease were met last, on disk: a daemon that starts again looks for them there
//! at once, and their pods are called again within a second. Whatever else tells where peers are (the
//! LAN, a domain, a list) may take longer.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use mercato_discovery::{Address, Sighting, SightingId, Source};
use mercato_protocol::id::PublicKey;
use tokio::task::spawn_blocking;

use crate::driver::{Driver, Handle};
use crate::limits;
use crate::store::file;

const FILE: &str = "partners";
/// What the source of such a sighting calls it.
const INSTANCE: &str = "met before";

/// Where each of them was met.
type Met = BTreeMap<PublicKey, Address>;

/// Where they were met, as it is on disk.
pub(super) struct Partners {
    file: PathBuf,
    kept: Met,
}

impl Partners {
    /// Those of an earlier run. What cannot be read is none: they are found all the same.
    pub(super) fn open(data_dir: &Path) -> Self {
        let file = data_dir.join(FILE);
        let kept = fs::read_to_string(&file).map(|text| parse(&text)).unwrap_or_default();
        Self { file, kept }
    }

    /// They may be there still.
    pub(super) fn sightings(&self) -> impl Iterator<Item = Sighting> + use<'_> {
        self.kept.iter().map(|(peer, address)| Sighting {
            id: SightingId { source: Source::Peer(*peer), instance: INSTANCE.to_owned() },
            peer: Some(*peer),
            addresses: vec![address.clone()],
        })
    }

    /// Keeps the file in step, until it is dropped.
    pub(super) async fn keep(mut self, driver: Handle) {
        let mut is_told = false;
        loop {
            tokio::time::sleep(limits::PARTNERS_LOOK).await;
            let looked = |driver: &Driver| (driver.partners(), driver.met());
            // An error says that the daemon is stopping.
            let Ok((partners, met)) = driver.look(looked).await else { return };
            let mut now = self.kept.clone();
            now.extend(met);
            now.retain(|peer, _| partners.contains(peer));
            if now == self.kept {
                continue;
            }
            let (file, text) = (self.file.clone(), text(&now));
            match spawn_blocking(move || file::replace(&file, text.as_bytes())).await {
                Ok(Ok(())) => (self.kept, is_told) = (now, false),
                Ok(Err(error)) if !is_told => {
                    // Once until it can be written again.
                    tracing::warn!(%error, "where partners are is not kept: {}", self.file.display());
                    is_told = true;
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }
}

fn parse(text: &str) -> Met {
    let line = |line: &str| {
        let (peer, address) = line.split_once(' ')?;
        Some((peer.parse().ok()?, address.parse().ok()?))
    };
    text.lines().take(limits::PARTNERS).filter_map(line).collect()
}

fn text(met: &Met) -> String {
    let mut text = String::new();
    for (peer, address) in met.iter().take(limits::PARTNERS) {
        // Into a string nothing fails.
        let _ = writeln!(text, "{peer} {address}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_what_is_broken_is_not() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Partners::open(dir.path()).sightings().count(), 0);
        let address: Address = "/ip4/192.0.2.1/udp/7474/quic-v1".parse().unwrap();
        let met = Met::from([(PublicKey([7; 32]), address.clone())]);
        let broken = format!("{}nobody anywhere\n\u{0}", text(&met));
        fs::write(dir.path().join(FILE), broken).unwrap();
        let seen: Vec<_> = Partners::open(dir.path()).sightings().collect();
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].peer, &seen[0].addresses), (Some(PublicKey([7; 32])), &vec![address]));
    }
}
