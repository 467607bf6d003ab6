//! A Deployment of rome's whose pod runs in turin, and a pod that stays in rome and calls it.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::json;

const NODE: &str = "mercato-turin";
const PATIENCE: Duration = Duration::from_secs(60);
/// The page of the image.
const PAGE: &str = "Welcome to nginx!";
const MANIFEST: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {type: virtual-kubelet}
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: mercato.test/nginx:1
        resources: {requests: {cpu: 50m, memory: 16Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: caller, namespace: shop}
spec:
  nodeSelector: {kubernetes.io/hostname: rome-1}
  terminationGracePeriodSeconds: 1
  containers:
  - name: caller
    image: mercato.test/busybox:1
    command: [sleep, '3600']
";
/// Who the pod is, how often it has started, and where.
const POD: &str = "jsonpath={.items[*].metadata.uid} \
     {.items[*].status.containerStatuses[0].restartCount} {.items[*].spec.nodeName}";

pub(crate) struct Shop<'a> {
    user: User<'a>,
    /// Who it is and where, as [`POD`] says.
    pod: String,
}

impl<'a> Shop<'a> {
    /// Both run, in a namespace that is there.
    pub(crate) async fn open(rome: &'a Cluster) -> Result<Self> {
        let object = json!({
            "apiVersion": "mercato.dev/v1alpha1", "kind": "NamespaceOffload",
            "metadata": { "name": "default", "namespace": "shop" },
            "spec": { "strategy": "Both" },
        });
        rome.apply(&object.to_string()).await?;
        let user = User::new(rome, "shop");
        let ready = ["wait", "namespaceoffload/default", "--for=condition=Ready"];
        user.kubectl(&[&ready[..], &["--timeout=30s"]].concat()).await?;
        rome.apply(MANIFEST).await?;
        user.kubectl(&["rollout", "status", "deploy/web", "--timeout=90s"]).await?;
        user.kubectl(&["wait", "pod/caller", "--for=condition=Ready", "--timeout=30s"]).await?;
        let mut this = Self { user, pod: String::new() };
        this.pod = this.now().await?;
        ensure!(this.pod.ends_with(&format!(" 0 {NODE}")), "{}", this.pod);
        Ok(this)
    }

    /// The pod over there answers the one at home, by its address at home.
    pub(crate) async fn answers(&self) -> Result<()> {
        wait::until("web answers at home", PATIENCE, || async {
            let address =
                ["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"];
            let address = self.user.kubectl(&address).await?;
            ensure!(!address.is_empty(), "it has no address");
            let ask = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} 80");
            let said = self.user.kubectl(&["exec", "caller", "--", "sh", "-c", &ask]).await?;
            ensure!(said.contains(PAGE), "it says {said:?}");
            Ok(true)
        })
        .await
    }

    /// What people made is theirs to remove.
    pub(crate) async fn close(&self) -> Result<()> {
        let all = ["delete", "deploy/web", "pod/caller", "--cascade=foreground", "--timeout=60s"];
        self.user.kubectl(&all).await.map(drop)
    }

    /// It is the same pod, and was not started again.
    pub(crate) async fn is_as_it_was(&self) -> Result<()> {
        let (before, now) = (&self.pod, self.now().await?);
        ensure!(*before == now, "the pod was {before}, and is {now}");
        Ok(())
    }

    async fn now(&self) -> Result<String> {
        self.user.kubectl(&["get", "pods", "-l", "app=web", "-o", POD]).await
    }
}
