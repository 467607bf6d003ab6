//! A guest that works with its home's API server, by kubectl as anybody runs it in a pod: with the
//! variables, the token and the certificate that a pod has.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::image;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use super::{NAMESPACE, NODE, access};

const POD: &str = "operator";
/// A pod that stays at home.
const NEAR: &str = "near";
const ACCOUNT: &str = "system:serviceaccount:shop:clerk";
const PATIENCE: Duration = Duration::from_secs(60);
/// As its certificate has it.
const NAME: &str = "kubernetes.default.svc";

/// Rights of the account, and no more.
const RIGHTS: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: { name: clerk, namespace: shop }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: clerk, namespace: shop }
rules:
  - { apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create] }
  - { apiGroups: [""], resources: [pods], verbs: [get] }
  - { apiGroups: [""], resources: [pods/exec], verbs: [get, create] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: clerk, namespace: shop }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: clerk }
subjects: [{ kind: ServiceAccount, name: clerk, namespace: shop }]
"#;

/// The guest, and its home.
pub(crate) struct Operator<'a> {
    home: &'a Cluster,
    user: User<'a>,
}

impl<'a> Operator<'a> {
    pub(crate) async fn start(home: &'a Cluster) -> Result<Self> {
        home.apply(RIGHTS).await?;
        let user = User::new(home, NAMESPACE);
        let own = json!({ "name": "MINE", "value": "stays" });
        let container = json!({ "name": POD, "image": image::KUBECTL, "env": [own],
            "command": ["sleep", "36000"] });
        let spec = json!({ "serviceAccountName": "clerk", "containers": [container],
            "terminationGracePeriodSeconds": 0 });
        user.on(NODE).makes(POD, &spec).await?;
        user.on("rome-1").start(NEAR, "sleep 36000", &[]).await?;
        let ready = ["wait", "pod", "--all", "--for=condition=Ready", "--timeout=120s"];
        user.kubectl(&ready).await?;
        Ok(Self { home, user })
    }

    /// It lists, makes and watches, and runs something in a pod at home.
    pub(crate) async fn works(&self) -> Result<()> {
        let env = self.runs("env").await?;
        for line in
            ["KUBERNETES_SERVICE_HOST=kubernetes.default.svc", "KUBERNETES_SERVICE_PORT=443"]
        {
            ensure!(env.lines().any(|it| it == line), "it has no {line}: {env}");
        }
        ensure!(
            env.contains("KUBERNETES_SERVICE_PORT_HTTPS=443") && env.contains("MINE=stays"),
            "{env}"
        );
        // The address is there about a second after its first container.
        wait::until("the API server answers", PATIENCE, || async {
            Ok(self.runs("kubectl auth whoami -o jsonpath={.status.userInfo.username}").await?
                == ACCOUNT)
        })
        .await?;
        let listed = self.runs("kubectl get configmaps -o name").await?;
        ensure!(listed.contains("configmap/kube-root-ca.crt"), "it lists {listed:?}");
        self.runs("kubectl create configmap told --from-literal=word=one").await?;
        self.watches().await.context("watch")?;
        let run = format!("kubectl exec {NEAR} -- sh -c 'echo at $HOSTNAME'");
        let said = self.runs(&run).await?;
        ensure!(said.trim() == format!("at {NEAR}"), "exec said {said:?}");
        let refused = self.runs("kubectl get secrets 2>&1; true").await?;
        ensure!(refused.contains("Forbidden") && refused.contains(ACCOUNT), "it hears {refused:?}");
        Ok(())
    }

    /// It sees changes of an object as they are made at home.
    async fn watches(&self) -> Result<()> {
        let watch = "kubectl get configmap told --watch -o 'jsonpath={.data.word}{\"\\n\"}'";
        self.runs(&format!("{watch} > /tmp/seen 2>&1 & echo $! > /tmp/watch")).await?;
        self.has_seen("one").await?;
        self.says("two").await?;
        self.has_seen("two").await
    }

    async fn says(&self, word: &str) -> Result<()> {
        let patch = json!({ "data": { "word": word } }).to_string();
        self.user.kubectl(&["patch", "configmap", "told", "-p", &patch]).await.map(drop)
    }

    async fn has_seen(&self, word: &str) -> Result<()> {
        wait::until(&format!("{word} is seen"), PATIENCE, || async {
            Ok(self.runs("cat /tmp/seen").await?.lines().any(|line| line == word))
        })
        .await
    }

    /// Each request came with the pod's own token, from this cluster's gateway.
    pub(crate) fn is_told_from_others(&self) -> Result<()> {
        let log = std::fs::read_to_string(self.home.data_outside().join("audit.log"))?;
        let own = log.lines().filter(|line| line.contains(ACCOUNT));
        let own: Vec<Value> = own.filter_map(|line| serde_json::from_str(line).ok()).collect();
        let did = |verb: &str, resource: &str| {
            own.iter().any(|event| {
                event["user"]["username"] == ACCOUNT
                    && event["verb"] == verb
                    && event["objectRef"]["resource"] == resource
            })
        };
        for (verb, resource) in
            [("list", "configmaps"), ("create", "configmaps"), ("watch", "configmaps")]
        {
            ensure!(did(verb, resource), "nobody has done {verb} of {resource}");
        }
        let pod = "authentication.kubernetes.io/pod-name";
        let by_pod = own.iter().any(|event| event["user"]["extra"][pod][0] == POD);
        ensure!(by_pod, "the token is of no pod: {:?}", own.first());
        Ok(())
    }

    /// The address that the name has for it, in each form.
    pub(crate) async fn finds(&self) -> Result<String> {
        let mut found = None;
        // Without a dot at the end busybox looks up a name as it is.
        for name in [format!("{NAME}.cluster.local."), format!("{NAME}.")] {
            let said = self.runs(&format!("busybox nslookup -type=a {name} 2>&1; true")).await?;
            let answer = said.split_once("\n\n").map_or(said.as_str(), |(_, answer)| answer);
            let address = answer.lines().find_map(|line| line.strip_prefix("Address: "));
            let address = address.with_context(|| format!("{name}: {said}"))?.trim().to_owned();
            ensure!(found.is_none_or(|before| before == address), "{name}: {said}");
            found = Some(address);
        }
        found.context("it has no address")
    }

    /// It reaches the server there, and nothing else of the gateway's node, as its kubelet and what is
    /// not there.
    pub(crate) async fn finds_one_port(&self, address: &str) -> Result<()> {
        for (port, is_there) in [(443, true), (10_250, false), (6_443, false), (9, false)] {
            let said = self.runs(&connects(address, port)).await?;
            ensure!((said.trim() == "there") == is_there, "at {port}: {said}");
        }
        Ok(())
    }

    /// What it has under way ends with its access, and nothing else begins; with it all is there again.
    pub(crate) async fn loses_access(&self, home: &Daemon<'_>, address: &str) -> Result<()> {
        access(home, "none").await?;
        wait::until("nobody answers", PATIENCE, || async {
            Ok(self.runs(&connects(address, 443)).await?.trim() == "gone")
        })
        .await?;
        wait::until("the name is gone", PATIENCE, || async {
            let look = format!("busybox nslookup -type=a {NAME}.cluster.local. 2>&1; true");
            Ok(self.runs(&look).await?.contains("NXDOMAIN"))
        })
        .await?;
        self.says("three").await?;
        let open = "netstat -tn | grep -c ':443 *ESTABLISHED'; true";
        wait::until("no connection is left", PATIENCE, || async {
            Ok(self.runs(open).await?.trim() == "0")
        })
        .await?;
        ensure!(
            !self.runs("cat /tmp/seen").await?.contains("three"),
            "it has seen what came later"
        );
        access(home, "home").await?;
        // Its token is in its volume again once the kubelet over there looks, in a minute or two.
        wait::until("the API server takes connections again", PATIENCE, || async {
            Ok(self.runs(&connects(address, 443)).await?.trim() == "there")
        })
        .await?;
        self.finds().await.map(drop)
    }

    pub(crate) async fn works_again(&self) -> Result<()> {
        wait::until("it works again", PATIENCE, || async {
            // With a flag for that, kubectl would look for no server by its pod's variables.
            let listed = self.runs("busybox timeout 9 kubectl get configmaps -o name").await?;
            Ok(listed.contains("configmap/told"))
        })
        .await
    }

    async fn runs(&self, script: &str) -> Result<String> {
        self.user.kubectl(&["exec", POD, "--", "sh", "-c", script]).await
    }
}

/// Says whether somebody takes a connection.
pub(crate) fn connects(address: &str, port: u16) -> String {
    format!("busybox nc -w 2 {address} {port} -e /bin/true 2>/dev/null && echo there || echo gone")
}
