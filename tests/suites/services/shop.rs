//! Pods at home and guests elsewhere, behind one Service.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use super::names::Asker;

/// Offloaded, with the Service in it,
pub(crate) const NAMESPACE: &str = "shop";
/// and what stands for it over there.
pub(crate) const GUESTS: &str = "shop-rome";
/// The virtual node that stands for it.
pub(crate) const NODE: &str = "mercato-turin";
/// The pods of the Service, at home and away.
pub(crate) const NEAR: [&str; 2] = ["near-1", "near-2"];
pub(crate) const FAR: [&str; 2] = ["far-1", "far-2"];
/// Who calls, at home and away.
pub(crate) const CALLERS: [&str; 2] = ["caller-near", "caller-far"];
const REQUESTS: usize = 1_000;
/// Answers with the pod's name.
pub(crate) const SERVES: &str = "mkdir /w; hostname > /w/index.html; exec httpd -f -p 8080 -h /w";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The same of a change of endpoints: far more than it takes.
pub(crate) const SOON: Duration = Duration::from_secs(15);

/// The Services, with their pods and callers.
pub(crate) struct Shop<'a> {
    pub(crate) home: &'a Cluster,
    pub(crate) provider: &'a Cluster,
    pub(crate) user: User<'a>,
}

impl<'a> Shop<'a> {
    /// The Service first, as whoever follows Kubernetes' advice has it.
    pub(crate) async fn open(home: &'a Cluster, provider: &'a Cluster) -> Result<Self> {
        let user = User::new(home, NAMESPACE);
        let this = Self { home, provider, user };
        this.apply(
            "web",
            json!({ "selector": { "app": "web" }, "type": "NodePort",
            "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] }),
        )
        .await?;
        this.apply(
            "members",
            json!({ "selector": { "app": "web" }, "clusterIP": "None",
            "ports": [{ "name": "http", "port": 8080 }] }),
        )
        .await?;
        let (near, far) = (user.on("rome-1"), user.on(NODE));
        for name in NEAR {
            near.start(name, SERVES, &["--labels=app=web"]).await?;
        }
        for name in FAR {
            far.start(name, SERVES, &["--labels=app=web"]).await?;
        }
        near.start(CALLERS[0], "sleep 36000", &[]).await?;
        far.start(CALLERS[1], "sleep 36000", &[]).await?;
        let all = ["wait", "pod", "--all", "--for=condition=Ready", "--timeout=120s"];
        user.kubectl(&all).await?;
        for name in FAR {
            user.address_of(name).await?;
        }
        Ok(this)
    }

    /// A guest finds the names that its namespace has at home, and no others.
    pub(crate) async fn has_names(&self) -> Result<()> {
        self.has_endpoints("members", 4).await?;
        self.apply(
            "outside",
            json!({ "type": "ExternalName", "externalName": "web.shop.svc.rome.example" }),
        )
        .await?;
        let guest = Asker { user: self.user, pod: CALLERS[1] };
        let resolver = ["exec", CALLERS[1], "--", "cat", "/etc/resolv.conf"];
        let resolver = self.user.kubectl(&resolver).await?;
        let search = "search shop.svc.rome.example svc.rome.example rome.example";
        ensure!(resolver.contains(search), "it has {resolver}");
        let address = self.address(self.provider, GUESTS).await?;
        // Without a dot: busybox looks up others as they are.
        for name in ["web", "web.shop.svc.rome.example.", "outside"] {
            guest.finds(name, &[&address]).await?;
        }
        for name in ["web", "web.shop"] {
            let answers = self.called(CALLERS[1], &format!("{name} 80"), 4).await?;
            ensure!(!answers.contains_key("lost"), "by the name {name}: {answers:?}");
        }
        let there = self.all_of(self.provider, GUESTS, "endpointslices").await?;
        let slices = there["items"].as_array().context("a list")?.iter();
        let of_members = slices
            .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "members");
        let endpoints = of_members.flat_map(|slice| slice["endpoints"].as_array()).flatten();
        let members: Vec<&str> =
            endpoints.filter_map(|endpoint| endpoint["addresses"][0].as_str()).collect();
        guest.finds("members", &members).await?;
        let places = guest.places("_http._tcp.members.shop.svc.rome.example.").await?;
        // By the addresses that home shows.
        for pod in NEAR.iter().chain(&FAR) {
            let label = self.user.address_of(pod).await?.to_string().replace('.', "-");
            let host = format!("{label}.members.shop.svc.rome.example");
            ensure!(places.contains(&format!("8080 {host}")), "its places are {places}");
            let found = guest.found(&host).await?;
            ensure!(members.contains(&found.as_str()), "{host} is {found}, of {members:?}");
            for name in [format!("{label}.web.shop.svc"), format!("{label}.shop.pod")] {
                guest.finds(&format!("{name}.rome.example."), &[&found]).await?;
            }
        }
        for foreign in [
            "kubernetes.default.svc.rome.example.",
            "kubernetes.default.svc.cluster.local.",
            "kube-dns.kube-system.svc.cluster.local.",
            "web.shop-rome.svc.cluster.local.",
            "none.shop.svc.rome.example.",
        ] {
            guest.finds_none(foreign).await?;
        }
        self.user.kubectl(&["delete", "service", "outside"]).await?;
        Ok(())
    }

    /// By the Service's address on its own side each caller has answers of all pods.
    pub(crate) async fn is_called_from_both(&self) -> Result<()> {
        self.has_endpoints("web", 4).await?;
        self.has_endpoints("members", 4).await?;
        let (here, there) =
            (self.address(self.home, NAMESPACE), self.address(self.provider, GUESTS));
        let addresses = [here.await?, there.await?];
        for (caller, address) in CALLERS.into_iter().zip(&addresses) {
            let answers = self.called(caller, &format!("{address} 80"), REQUESTS).await?;
            let few = NEAR
                .iter()
                .chain(&FAR)
                .find(|pod| answers.get(**pod).copied().unwrap_or_default() < REQUESTS / 10);
            ensure!(
                few.is_none() && answers.values().sum::<usize>() == REQUESTS,
                "{caller} had answers of {answers:?}"
            );
        }
        let headless = self.get(self.provider, GUESTS, "service", "members").await?;
        ensure!(headless["spec"]["clusterIP"] == "None", "{headless}");
        Ok(())
    }

    /// A node port at home, and the API server, reach guests as they reach pods at home.
    pub(crate) async fn is_called_through_home(&self) -> Result<()> {
        let service = self.get(self.home, NAMESPACE, "service", "web").await?;
        let port = service["spec"]["ports"][0]["nodePort"].as_u64().context("no node port")?;
        let node = self.home.machine(1).address();
        let script = asks(&format!("{node} {port}"), 100);
        let said = self.home.command("busybox")?.args(["sh", "-c", &script]).output().await?;
        let answers = counted(&String::from_utf8_lossy(&said.stdout));
        ensure!(FAR.iter().all(|pod| answers.contains_key(*pod)), "at the node port: {answers:?}");
        let path = format!("/api/v1/namespaces/{NAMESPACE}/services/web:http/proxy/");
        let mut answers = BTreeMap::new();
        for _ in 0..40 {
            let said = self.home.kubectl(&["get", "--raw", &path]).await?.ok()?;
            *answers.entry(said.trim().to_owned()).or_insert(0) += 1;
        }
        ensure!(FAR.iter().all(|pod| answers.contains_key(*pod)), "by the API server: {answers:?}");
        Ok(())
    }

    /// A pod that ends, a port that is another, a Service that comes and one that goes.
    pub(crate) async fn follows_changes(&self) -> Result<()> {
        self.user.kubectl(&["delete", "pod", NEAR[1], "--grace-period=0", "--force"]).await?;
        self.has_endpoints("web", 3).await.context("a pod has ended")?;
        self.apply(
            "late",
            json!({ "selector": { "app": "web" }, "sessionAffinity": "ClientIP",
            "ports": [{ "name": "http", "port": 81, "targetPort": 8080 }] }),
        )
        .await?;
        self.has_endpoints("late", 3).await.context("a Service has come")?;
        let late = self.get(self.provider, GUESTS, "service", "late").await?;
        let address = late["spec"]["clusterIP"].as_str().context("no address")?;
        let answers = self.called(CALLERS[1], &format!("{address} 81"), 50).await?;
        ensure!(answers.len() == 1, "by the affinity of clients one pod answers, not {answers:?}");
        self.apply(
            "late",
            json!({ "selector": { "app": "web" },
            "ports": [{ "name": "http", "port": 82, "targetPort": 8080 }] }),
        )
        .await?;
        wait::until("the port is another", SOON, || async {
            let late = self.get(self.provider, GUESTS, "service", "late").await?;
            ensure!(late["spec"]["clusterIP"] == address, "it is {}", late["spec"]);
            Ok(late["spec"]["ports"][0]["port"] == 82)
        })
        .await?;
        // Of what is not in the pod network, guests know nothing.
        self.apply("outside", json!({ "ports": [{ "name": "http", "port": 80 }] })).await?;
        let slice = json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": "outside-1", "namespace": NAMESPACE,
                "labels": { "kubernetes.io/service-name": "outside" } },
            "addressType": "IPv4", "endpoints": [{ "addresses": ["192.0.2.7"] }],
            "ports": [{ "name": "http", "port": 80 }] });
        self.home.apply(&slice.to_string()).await?;
        self.has_endpoints("outside", 0).await.context("outside of the pod network")?;
        self.user.kubectl(&["delete", "service", "late", "outside"]).await?;
        self.user.kubectl(&["delete", "endpointslice", "outside-1"]).await?;
        wait::until("Services that are gone are gone over there", SOON, || async {
            let left = self.provider.kubectl(&[
                "-n",
                GUESTS,
                "get",
                "services,endpointslices",
                "-o",
                "name",
            ]);
            let left = left.await?.ok()?;
            ensure!(!left.contains("late") && !left.contains("outside"), "there is {left}");
            Ok(true)
        })
        .await
    }

    /// Nothing is made anew: a Service keeps its address, and pods that have it can call it.
    pub(crate) async fn outlives_a_restart(&self, daemon: &Daemon<'_>) -> Result<()> {
        let before = self.get(self.provider, GUESTS, "service", "web").await?;
        daemon.kill().await?;
        self.goes_on(&before).await
    }

    /// Changes are followed, by the Service that was there before.
    pub(crate) async fn goes_on(&self, before: &Value) -> Result<()> {
        self.user.kubectl(&["delete", "pod", FAR[1], "--grace-period=1"]).await?;
        self.has_endpoints("web", 2).await.context("afterwards")?;
        let far = self.user.on(NODE);
        far.start(FAR[1], SERVES, &["--labels=app=web"]).await?;
        self.has_endpoints("web", 3).await.context("a pod has come")?;
        let after = self.get(self.provider, GUESTS, "service", "web").await?;
        let uid = |of: &Value| of["metadata"]["uid"].clone();
        ensure!(uid(before) == uid(&after), "it was made anew: {before}, {after}");
        Ok(())
    }

    async fn apply(&self, name: &str, spec: Value) -> Result<()> {
        let metadata = json!({ "name": name, "namespace": NAMESPACE });
        let service =
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec });
        self.home.apply(&service.to_string()).await
    }

    /// Waits until so many endpoints of a Service are ready over there.
    pub(crate) async fn has_endpoints(&self, service: &str, count: usize) -> Result<()> {
        let selector = format!("kubernetes.io/service-name={service}");
        let get = ["-n", GUESTS, "get", "endpointslices", "-l", &selector, "-o", "json"];
        wait::until(&format!("{service} has {count} endpoints over there"), SOON, || async {
            let there = ["-n", GUESTS, "get", "service", service];
            self.provider.kubectl(&there).await?.ok()?;
            let slices: Value = serde_json::from_str(&self.provider.kubectl(&get).await?.ok()?)?;
            let slices = slices["items"].as_array().context("a list")?;
            let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array()).flatten();
            let ready: Vec<_> =
                endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).collect();
            ensure!(ready.len() == count, "there are {ready:?}");
            Ok(true)
        })
        .await
    }

    pub(crate) async fn address(&self, cluster: &Cluster, namespace: &str) -> Result<String> {
        let service = self.get(cluster, namespace, "service", "web").await?;
        Ok(service["spec"]["clusterIP"].as_str().context("no address")?.to_owned())
    }

    async fn all_of(&self, cluster: &Cluster, namespace: &str, kind: &str) -> Result<Value> {
        let said = cluster.kubectl(&["-n", namespace, "get", kind, "-o", "json"]).await?.ok()?;
        Ok(serde_json::from_str(&said)?)
    }

    pub(crate) async fn get(
        &self,
        cluster: &Cluster,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Value> {
        let said =
            cluster.kubectl(&["-n", namespace, "get", kind, name, "-o", "json"]).await?.ok()?;
        Ok(serde_json::from_str(&said)?)
    }

    /// Who has answered how often.
    pub(crate) async fn called(
        &self,
        caller: &str,
        at: &str,
        times: usize,
    ) -> Result<BTreeMap<String, usize>> {
        let script = asks(at, times);
        let said = self.user.kubectl(&["exec", caller, "--", "sh", "-c", &script]).await?;
        Ok(counted(&said))
    }
}

/// A script that asks at an address and a port, so often, and prints what each request is answered.
pub(crate) fn asks(at: &str, times: usize) -> String {
    format!(
        "for i in $(seq {times}); do \
         printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 5 {at} | busybox tail -n 1 | \
         busybox grep . || echo lost; done"
    )
}

pub(crate) fn counted(lines: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in lines.lines() {
        *counts.entry(line.trim().to_owned()).or_default() += 1;
    }
    counts
}
