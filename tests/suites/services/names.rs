//! What guests find by names of home, and what they do not.

use anyhow::{Context as _, Result, ensure};
use mercato_tests::user::User;
use mercato_tests::wait;

use super::shop::SOON;

/// Whoever asks, and from where.
pub(crate) struct Asker<'a> {
    pub(crate) user: User<'a>,
    pub(crate) pod: &'a str,
}

impl Asker<'_> {
    /// Waits until a name has these addresses, and no others.
    pub(crate) async fn finds(&self, name: &str, addresses: &[&str]) -> Result<()> {
        wait::until(&format!("{name} is {addresses:?}"), SOON, || async {
            let said = self.looks_up(name, "a").await?;
            let mut found: Vec<&str> = said.lines().filter_map(address).collect();
            found.sort_unstable();
            found.dedup();
            let mut wanted = addresses.to_vec();
            wanted.sort_unstable();
            ensure!(found == wanted, "it is {said}");
            Ok(true)
        })
        .await
    }

    /// The one address that a name has.
    pub(crate) async fn found(&self, name: &str) -> Result<String> {
        let said = self.looks_up(name, "a").await?;
        Ok(said.lines().find_map(address).with_context(|| format!("{name}: {said}"))?.to_owned())
    }

    /// There is no such name, or nothing of that type.
    pub(crate) async fn finds_none(&self, name: &str) -> Result<()> {
        let said = self.looks_up(name, "a").await?;
        ensure!(said.contains("NXDOMAIN"), "{name}: {said}");
        Ok(())
    }

    /// Where a port of a Service is, and on which hosts.
    pub(crate) async fn places(&self, name: &str) -> Result<String> {
        self.looks_up(name, "srv").await
    }

    async fn looks_up(&self, name: &str, kind: &str) -> Result<String> {
        let script = format!("busybox nslookup -type={kind} {name} 2>&1; true");
        let said = self.user.kubectl(&["exec", self.pod, "--", "sh", "-c", &script]).await;
        let said = said.with_context(|| format!("look up {name}"))?;
        // The first lines say who was asked.
        let answer = said.split_once("\n\n").map_or(said.as_str(), |(_, answer)| answer);
        Ok(answer.to_owned())
    }
}

fn address(line: &str) -> Option<&str> {
    let (_, address) = line.strip_prefix("Address")?.split_once(": ")?;
    Some(address.trim())
}
