//! A guest of the same lease, whose namespace has no access to home's API server.

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;

use super::operator::connects;
use super::{NODE, OTHER};

const POD: &str = "scout";

/// The guest, and the two clusters.
pub(crate) struct Others<'a> {
    home: &'a Cluster,
    provider: &'a Cluster,
    user: User<'a>,
}

impl<'a> Others<'a> {
    pub(crate) async fn start(home: &'a Cluster, provider: &'a Cluster) -> Result<Self> {
        let user = User::new(home, OTHER);
        user.on(NODE).run(POD, "sleep 36000").await?;
        user.address_of(POD).await?;
        Ok(Self { home, provider, user })
    }

    /// Neither the name, in any form, nor the server: not at the address that others have for it, nor
    /// where it is.
    pub(crate) async fn find_nothing(&self, mapped: &str) -> Result<()> {
        for name in [
            "kubernetes.default.svc.cluster.local.",
            "kubernetes.default.svc.",
            "default.svc.cluster.local.",
        ] {
            let said = self.runs(&format!("busybox nslookup -type=a {name} 2>&1; true")).await?;
            ensure!(said.contains("NXDOMAIN"), "{name}: {said}");
        }
        let mut all = vec![(mapped.to_owned(), 443), (mapped.to_owned(), 10_250)];
        for cluster in [self.home, self.provider] {
            let server = cluster.api_server();
            all.push((server.ip().to_string(), server.port()));
            let service = ["get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"];
            all.push((User::new(cluster, "default").kubectl(&service).await?, 443));
        }
        for (address, port) in all {
            let said = self.runs(&connects(&address, port)).await?;
            ensure!(said.trim() == "gone", "{address}:{port} is {said}");
        }
        let env = self.runs("env").await?;
        ensure!(!env.contains("kubernetes.default.svc"), "it is told where to look: {env}");
        Ok(())
    }

    async fn runs(&self, script: &str) -> Result<String> {
        let said = self.user.kubectl(&["exec", POD, "--", "sh", "-c", script]).await;
        said.with_context(|| script.to_owned())
    }
}
