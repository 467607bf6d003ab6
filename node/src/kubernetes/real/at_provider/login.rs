//! By what nodes pull the image of gates: the owner's files, read again each minute, since logins change.

use std::path::PathBuf;
use std::sync::Arc;

use mercato_offload::forge::registry::Login;
use mercato_protocol::terms::NetworkIsolation;
use tokio::time::{Instant, sleep_until};

use super::super::shared::Shared;
use crate::limits;

/// The login for the image of gates, as the files had it; none where the lease has no gates or the
/// owner no files. Otherwise why there is none, with the setting.
pub(super) type Read = Result<Option<Login>, String>;

/// The files, for one lease, and what was in them.
pub(super) struct Logins {
    image: String,
    files: Vec<PathBuf>,
    read: Read,
    next: Instant,
}

impl Logins {
    /// For a lease whose guests are kept apart in that way. Nothing is read yet.
    pub(super) fn of(shared: &Arc<Shared>, isolation: NetworkIsolation) -> Self {
        let image = shared.gate.image.clone().unwrap_or_default();
        let files = match isolation {
            NetworkIsolation::Required => shared.logins.clone(),
            NetworkIsolation::None => Vec::new(),
        };
        Self { image, files, read: Ok(None), next: Instant::now() }
    }

    /// As it was read last.
    pub(super) fn now(&self) -> Read {
        self.read.clone()
    }

    /// Reads the files as they are now.
    pub(super) async fn look(&mut self) {
        self.read = self.login().await;
        self.next = Instant::now() + limits::LOGIN_LOOK;
    }

    /// Looks from time to time until it is another one.
    pub(super) async fn change(&mut self) {
        if self.files.is_empty() {
            return std::future::pending().await;
        }
        let before = self.now();
        while self.read == before {
            sleep_until(self.next).await;
            self.look().await;
        }
    }

    /// That of the first file which has one.
    async fn login(&self) -> Read {
        let mut whys = Vec::new();
        for file in &self.files {
            let read = tokio::fs::read_to_string(file).await.map_err(|error| error.to_string());
            match read.and_then(|config| Login::of(&config, &self.image)) {
                Ok(login) => return Ok(Some(login)),
                Err(why) => whys.push(format!("{} {why}", file.display())),
            }
        }
        match whys.is_empty() {
            true => Ok(None),
            false => Err(format!("gateway.nodes.imagePullSecrets: {}", whys.join("; "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logins(files: Vec<PathBuf>) -> Logins {
        let image = "hub.example/mercato:1".to_owned();
        Logins { image, files, read: Ok(None), next: Instant::now() }
    }

    #[tokio::test]
    async fn the_first_file_that_has_one_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let other = file("other", r#"{"auths":{"other.example":{"auth":"x"}}}"#);
        let ours = file("ours", r#"{"auths":{"hub.example":{"auth":"x"}}}"#);
        assert_eq!(logins(Vec::new()).login().await, Ok(None));
        let both = logins(vec![other.clone(), ours]).login().await;
        assert!(both.unwrap().is_some());
        let why = logins(vec![other, dir.path().join("none")]).login().await.unwrap_err();
        assert!(why.starts_with("gateway.nodes.imagePullSecrets: "), "{why}");
        assert!(why.contains("no login for hub.example/mercato"), "{why}");
        assert!(why.contains("No such file"), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn another_login_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        let write = |word: &str| {
            let text = format!(r#"{{"auths":{{"hub.example":{{"auth":"{word}"}}}}}}"#);
            std::fs::write(&path, text).unwrap();
        };
        write("first");
        let mut logins = logins(vec![path.clone()]);
        logins.look().await;
        let first = logins.now();
        write("second");
        logins.change().await;
        assert!(logins.now().is_ok() && logins.now() != first);
    }
}
