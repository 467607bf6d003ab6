//! The ten services, and who calls them: plain objects of Kubernetes.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use crate::answers::{Cut, judge};

pub(crate) const NAMESPACE: &str = "shop";
/// What stands for it at both providers.
const GUESTS: &str = "shop-rome";
/// Each service, and where a pod of it runs.
pub(crate) const SERVICES: [(&str, &[&str]); 10] = [
    ("pages", &["rome"]),
    ("prices", &["rome"]),
    ("front", &["rome", "turin"]),
    ("cart", &["turin"]),
    ("orders", &["turin"]),
    ("stock", &["turin"]),
    ("users", &["milan"]),
    ("mails", &["milan"]),
    ("search", &["milan"]),
    ("news", &["rome", "milan"]),
];
/// Where each service is called from.
pub(crate) const CALLERS: [&str; 3] = ["rome", "turin", "milan"];
/// Answers with the pod's name.
const SERVES: &str = "mkdir /w; hostname > /w/index.html; exec httpd -f -p 8080 -h /w";
/// Calls each `name=address` twice a second, and prints when it was answered what.
const CALLS: &str = r#"
for one in "$@"; do
  name=${one%%=*}; at=${one#*=}
  while :; do
    answer=$(printf 'GET / HTTP/1.0\r\n\r\n' |
      busybox timeout 4 busybox nc -w 4 $at 80 2>/dev/null | busybox tail -n 1)
    echo "$(busybox date +%s) $name ${answer:-lost}"
    busybox sleep 0.5
  done &
done
wait
"#;
const PATIENCE: Duration = Duration::from_secs(60);

/// Where all of it runs, and who makes it.
pub(crate) struct Shop<'a> {
    home: &'a Cluster,
    providers: [&'a Cluster; 2],
    user: User<'a>,
}

impl<'a> Shop<'a> {
    /// Makes all of it, and waits until callers call.
    pub(crate) async fn open(home: &'a Cluster, providers: [&'a Cluster; 2]) -> Result<Self> {
        let this = Self { home, providers, user: User::new(home, NAMESPACE) };
        for (name, places) in SERVICES {
            let spec = json!({ "selector": { "app": name },
                "ports": [{ "port": 80, "targetPort": 8080 }] });
            this.apply("v1", "Service", name, spec).await?;
            for place in places {
                this.deploy(&format!("{name}-{place}"), name, place).await?;
            }
        }
        let all = ["wait", "deployment", "--all", "--for=condition=Available", "--timeout=180s"];
        this.user.kubectl(&all).await?;
        for place in CALLERS {
            let targets = this.targets(place).await.with_context(|| format!("in {place}"))?;
            let args =
                json!([["sh", "-c", CALLS, "calls"].map(str::to_owned).to_vec(), targets].concat());
            let containers =
                json!([{ "name": "main", "image": "mercato.test/busybox:1", "command": args }]);
            let spec = json!({ "terminationGracePeriodSeconds": 0, "containers": containers });
            this.user.on(&node(place)).makes(&caller(place), &spec).await?;
        }
        let ready = ["wait", "pod", "--all", "--for=condition=Ready", "--timeout=120s"];
        this.user.kubectl(&ready).await?;
        for place in CALLERS {
            this.is_called_from(place).await?;
        }
        Ok(this)
    }

    /// What callers had for answers is as it should be with a link that was cut so.
    pub(crate) async fn answered(&self, cut: Cut) -> Result<()> {
        let mut wrong = Vec::new();
        for place in CALLERS {
            let said = self.user.kubectl(&["logs", &caller(place)]).await?;
            wrong.extend(judge(place, &said, cut)?);
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("; "));
        Ok(())
    }

    /// A Deployment of one pod there.
    async fn deploy(&self, name: &str, app: &str, place: &str) -> Result<()> {
        let labels = json!({ "app": app, "place": place });
        let container = json!({ "name": "main", "image": "mercato.test/busybox:1",
            "command": ["sh", "-c", SERVES] });
        let pod = json!({ "nodeSelector": { "kubernetes.io/hostname": node(place) },
            "terminationGracePeriodSeconds": 0, "containers": [container] });
        let spec = json!({ "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod } });
        self.apply("apps/v1", "Deployment", name, spec).await
    }

    /// `name=address` of each service, as pods there call it.
    async fn targets(&self, place: &str) -> Result<Vec<String>> {
        let (cluster, namespace) = match self.providers.iter().find(|it| it.name() == place) {
            Some(provider) => (*provider, GUESTS),
            None => (self.home, NAMESPACE),
        };
        let address = async |name: &str| {
            let get = ["-n", namespace, "get", "service", name, "-o", "json"];
            let service: Value = serde_json::from_str(&cluster.kubectl(&get).await?.ok()?)?;
            let address = service["spec"]["clusterIP"].as_str().context("no address")?;
            Ok::<_, anyhow::Error>(format!("{name}={address}"))
        };
        wait::until("all services are there", PATIENCE, || async {
            try_join_all(SERVICES.map(|(name, _)| address(name))).await.map(|_| true)
        })
        .await?;
        try_join_all(SERVICES.map(|(name, _)| address(name))).await
    }

    /// Each service has answered there, of late.
    async fn is_called_from(&self, place: &str) -> Result<()> {
        wait::until(&format!("all services answer in {place}"), PATIENCE, || async {
            let said = self.user.kubectl(&["logs", &caller(place), "--tail=40"]).await?;
            let silent = SERVICES.iter().find(|(name, _)| {
                let mut answers = said.lines().filter(|line| line.contains(&format!(" {name} ")));
                answers.next_back().is_none_or(|last| last.ends_with(" lost"))
            });
            ensure!(silent.is_none(), "{silent:?} does not");
            Ok(true)
        })
        .await
    }

    async fn apply(&self, version: &str, kind: &str, name: &str, spec: Value) -> Result<()> {
        let metadata = json!({ "name": name, "namespace": NAMESPACE });
        let object =
            json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec });
        self.home.apply(&object.to_string()).await
    }
}

fn caller(place: &str) -> String {
    format!("caller-{place}")
}

/// The node of home's that stands for a place.
fn node(place: &str) -> String {
    if place == "rome" { "rome-1".to_owned() } else { format!("mercato-{place}") }
}
