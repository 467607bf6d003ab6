//! A Deployment of rome's whose pod runs in turin, its Service, and a pod that stays in rome and calls
//! that Service by its name.

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
const ASK: &str = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc";
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
kind: Service
metadata: {name: web, namespace: shop}
spec:
  selector: {app: web}
  ports: [{port: 80}]
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

    /// The pod over there answers the one at home, which calls its Service.
    pub(crate) async fn answers(&self) -> Result<()> {
        wait::until("web answers at home", PATIENCE, || async {
            let ask = format!("{ASK} -w 5 web 80");
            let said = self.user.kubectl(&["exec", "caller", "--", "sh", "-c", &ask]).await?;
            ensure!(said.contains(PAGE), "it says {said:?}");
            Ok(true)
        })
        .await
    }

    /// Its words are read through home's API server, which checks the certificates of its nodes: that of
    /// the virtual node was approved by the chart's program.
    pub(crate) async fn is_read(&self) -> Result<()> {
        wait::until("web is read through its virtual node", PATIENCE, || async {
            self.user.kubectl(&["logs", "deploy/web"]).await?;
            let page = ["exec", "deploy/web", "--", "cat", "/usr/share/nginx/html/index.html"];
            let page = self.user.kubectl(&page).await?;
            ensure!(page.contains(PAGE), "its page is {page:?}");
            Ok(true)
        })
        .await?;
        let reasons =
            "jsonpath={range .items[*]}{.spec.username} {.status.conditions[0].reason}\n{end}";
        let requests = self.user.kubectl(&["get", "csr", "-o", reasons]).await?;
        let ours = "system:serviceaccount:mercato:mercato MercatoVirtualNode";
        let mut daemons = requests.lines().filter(|line| line.contains(":mercato:mercato"));
        ensure!(daemons.clone().count() > 0 && daemons.all(|line| line == ours), "{requests}");
        let port = "jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}";
        let port = self.user.kubectl(&["get", "node", NODE, "-o", port]).await?;
        ensure!(port == "10350", "the virtual node's port is {port}");
        let service = "jsonpath={.webhooks[*].clientConfig.service.name}";
        let webhook = ["get", "mutatingwebhookconfiguration/offload.mercato.dev", "-o", service];
        let service = self.user.kubectl(&webhook).await?;
        ensure!(service.starts_with("mercato-webhook "), "the webhook is reached by {service:?}");
        Ok(())
    }

    /// The caller asks the pod over there ten times a second from now on, without waiting for answers:
    /// one that is lost adds nothing to the silence.
    pub(crate) async fn asks_on(&self) -> Result<Asking<'a>> {
        let ask = format!(
            "rm -f /tmp/end /tmp/ended /tmp/answered; (while [ ! -e /tmp/end ]; do \
             ({ASK} -w 1 web 80 | grep -q nginx && cut -d ' ' -f 1 /proc/uptime >> /tmp/answered) & \
             sleep 0.1; done; wait; touch /tmp/ended) </dev/null >/dev/null 2>&1 &"
        );
        self.user.kubectl(&["exec", "caller", "--", "sh", "-c", &ask]).await?;
        let asking = Asking { user: self.user };
        asking.answers(1).await?;
        Ok(asking)
    }

    /// What people made is theirs to remove.
    pub(crate) async fn close(&self) -> Result<()> {
        let all = [
            "delete",
            "deploy/web",
            "service/web",
            "pod/caller",
            "--cascade=foreground",
            "--timeout=180s",
        ];
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

/// The caller while it asks.
pub(crate) struct Asking<'a> {
    user: User<'a>,
}

impl Asking<'_> {
    /// Ends it once it is answered again; the longest time without an answer.
    pub(crate) async fn end(self) -> Result<Duration> {
        let before = self.answered().await?.len();
        self.answers(before + 3).await?;
        self.user.kubectl(&["exec", "caller", "--", "touch", "/tmp/end"]).await?;
        wait::until("the caller has ended", PATIENCE, || async {
            self.user.kubectl(&["exec", "caller", "--", "ls", "/tmp/ended"]).await.map(|_| true)
        })
        .await?;
        let answered = self.answered().await?;
        let silent = answered.windows(2).map(|two| two[1] - two[0]).fold(0.0, f64::max);
        Ok(Duration::from_secs_f64(silent))
    }

    /// Waits for so many answers in all.
    async fn answers(&self, count: usize) -> Result<()> {
        wait::until(&format!("{count} answers"), PATIENCE, || async {
            Ok(self.answered().await?.len() >= count)
        })
        .await
    }

    /// When each answer came, in seconds.
    async fn answered(&self) -> Result<Vec<f64>> {
        let times = self.user.kubectl(&["exec", "caller", "--", "cat", "/tmp/answered"]).await?;
        Ok(times.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
    }
}
