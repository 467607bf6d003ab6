//! Who calls the application: a pod of another namespace, which stays at home.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;
use mercato_tests::wait;

const NAMESPACE: &str = "people";
const POD: &str = "caller";
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy)]
pub(crate) struct Caller<'a>(User<'a>);

impl<'a> Caller<'a> {
    pub(crate) async fn start(home: &'a Cluster) -> Result<Self> {
        home.kubectl(&["create", "namespace", NAMESPACE]).await?.ok()?;
        let user = User::new(home, NAMESPACE).on("rome-1");
        user.run(POD, "exec sleep 36000").await?;
        Ok(Self(user))
    }

    /// What is answered at a URL.
    pub(crate) async fn asks(&self, url: &str) -> Result<String> {
        self.gets(&[url]).await
    }

    /// The same of a question with a body.
    pub(crate) async fn posts(&self, url: &str, body: &str) -> Result<String> {
        self.gets(&["--post-data", body, url]).await
    }

    async fn gets(&self, words: &[&str]) -> Result<String> {
        // Debian's wget of busybox has no limit of its own.
        let wget = ["exec", POD, "--", "timeout", "10", "wget", "-q", "-O", "-"];
        self.0.kubectl(&[&wget[..], words].concat()).await
    }

    /// Asks five times a second from now on, one after the other.
    pub(crate) async fn asks_on(&self, url: &str) -> Result<()> {
        let ask = format!(
            "rm -f /tmp/end /tmp/ended; : > /tmp/asked; (until [ -e /tmp/end ]; do \
             timeout 2 wget -q -O /dev/null {url} && echo answered || echo lost; sleep 0.2; \
             done >> /tmp/asked; touch /tmp/ended) </dev/null >/dev/null 2>&1 &"
        );
        self.0.kubectl(&["exec", POD, "--", "sh", "-c", &ask]).await.map(drop)
    }

    /// Ends that: how many requests there were, and how many of them were lost.
    pub(crate) async fn ends(&self) -> Result<(usize, usize)> {
        self.0.kubectl(&["exec", POD, "--", "touch", "/tmp/end"]).await?;
        wait::until("the caller has ended", PATIENCE, || async {
            self.0.kubectl(&["exec", POD, "--", "ls", "/tmp/ended"]).await.map(|_| true)
        })
        .await?;
        let asked = self.0.kubectl(&["exec", POD, "--", "cat", "/tmp/asked"]).await?;
        let lost = asked.lines().filter(|line| *line == "lost").count();
        ensure!(asked.lines().count() > lost, "no request was answered: {asked:?}");
        Ok((asked.lines().count(), lost))
    }
}
