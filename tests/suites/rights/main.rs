//! What the daemon's account can do at most, and that of the heartbeat, tried as that account on a real
//! API server: each right that `config/deploy/rbac.yaml`, `optional/nodes.yaml` and `optional/heartbeat.yaml` give
//! has its cases in `cases.yaml` or `heartbeat.yaml`, or says why it needs none, and what would widen it
//! is seen to be refused.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Request;
use kube::Client;
use mercato_tests::cluster::{Cluster, ClusterSpec};
use mercato_tests::daemon::deploy;
use mercato_tests::suite::{self, Stage, Test};
use mercato_tests::wait;
use rcgen::{CertificateParams, KeyPair};
use serde::Deserialize;
use serde_json::{Value, json};

const RBAC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/deploy/rbac.yaml");
const AUDIENCES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../config/deploy/optional/token-audiences.yaml");
const NODES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/deploy/optional/nodes.yaml");
const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/suites/rights");
const HEARTBEAT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../config/deploy/optional/heartbeat.yaml");
/// Who is given rights by these manifests, with the cases of all of them.
const ACCOUNTS: [Account; 2] = [
    Account {
        name: "system:serviceaccount:mercato:mercato",
        manifests: &[RBAC, NODES],
        cases: "cases.yaml",
    },
    Account {
        name: "system:serviceaccount:mercato:mercato-heartbeat",
        manifests: &[HEARTBEAT],
        cases: "heartbeat.yaml",
    },
];
const PATIENCE: Duration = Duration::from_secs(30);

/// One of the accounts that Mercato has.
struct Account {
    name: &'static str,
    manifests: &'static [&'static str],
    cases: &'static str,
}

/// Rights on one resource.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// `pods/status`, `leases.coordination.k8s.io`, with a name behind a slash where the right
    /// is on that alone; the role's place comes first, if it is not the whole cluster.
    resource: String,
    verbs: Vec<String>,
    /// Why there is nothing to try.
    #[serde(default)]
    why: Option<String>,
    #[serde(default)]
    tries: Vec<Try>,
}

/// One request as the account.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Try {
    what: String,
    /// Method and path.
    ask: String,
    #[serde(default)]
    body: Option<Value>,
    /// A policy's name, `roles`, or `allowed`.
    answer: String,
}

fn main() -> ExitCode {
    let clusters = vec![ClusterSpec { nodes: 0, ..ClusterSpec::named("rome") }];
    let tests = vec![
        Test::ci("each_right_has_its_cases", |_| Box::pin(async { complete() })),
        Test::ci("no_right_can_be_widened", |stage| Box::pin(tried(stage))),
    ];
    suite::run("rights", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

impl Account {
    fn cases(&self) -> Result<Vec<Case>> {
        let text = std::fs::read_to_string(Path::new(HERE).join(self.cases))?;
        serde_saphyr::from_str(&text).context(self.cases)
    }
}

/// Every rule of the manifests' roles is a case, and every case a rule.
fn complete() -> Result<()> {
    for account in &ACCOUNTS {
        let (mut tried, mut unsure) = (BTreeSet::new(), Vec::new());
        for case in account.cases()? {
            if case.why.is_some() != case.tries.is_empty() {
                unsure.push(case.resource.clone());
            }
            tried.extend(case.verbs.iter().map(|verb| format!("{verb} {}", case.resource)));
        }
        ensure!(unsure.is_empty(), "either tries or a reason: {unsure:?}");
        let granted = granted(account)?;
        let new: Vec<_> = granted.difference(&tried).collect();
        let gone: Vec<_> = tried.difference(&granted).collect();
        ensure!(
            new.is_empty() && gone.is_empty(),
            "rights without a case in {}: {new:#?}; cases of no right: {gone:#?}",
            account.cases
        );
    }
    Ok(())
}

fn granted(account: &Account) -> Result<BTreeSet<String>> {
    let mut granted = BTreeSet::new();
    let manifests: Vec<_> =
        account.manifests.iter().map(std::fs::read_to_string).collect::<Result<_, _>>()?;
    for object in manifests.iter().flat_map(|text| text.split("\n---\n")) {
        let object: Value = serde_saphyr::from_str(object)?;
        let metadata = &object["metadata"];
        let place = match (object["kind"].as_str(), metadata["name"].as_str()) {
            (Some("ClusterRole"), Some("mercato" | "mercato-heartbeat")) => String::new(),
            (Some("ClusterRole"), Some("mercato-namespace")) => "in a namespace: ".to_owned(),
            (Some("ClusterRole"), Some("mercato-api-access")) => "with apiAccess: ".to_owned(),
            (Some("Role"), Some(_)) => {
                format!("{}: ", metadata["namespace"].as_str().context("a Role's namespace")?)
            }
            (Some("ClusterRole"), name) => bail!("a role that nobody has tried: {name:?}"),
            _ => continue,
        };
        for rule in object["rules"].as_array().context("rules")? {
            let list = |field: &str| {
                let words = rule[field].as_array().into_iter().flatten();
                words.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
            };
            let mut names: Vec<_> =
                list("resourceNames").iter().map(|name| format!("/{name}")).collect();
            if names.is_empty() {
                names.push(String::new());
            }
            for group in list("apiGroups") {
                let group = if group.is_empty() { group } else { format!(".{group}") };
                for resource in list("resources") {
                    for verb in list("verbs") {
                        let all = names.iter();
                        granted.extend(
                            all.map(|name| format!("{verb} {place}{resource}{group}{name}")),
                        );
                    }
                }
            }
        }
    }
    Ok(granted)
}

async fn tried(stage: &Stage) -> Result<()> {
    let rome = stage.cluster("rome");
    deploy(rome).await?;
    let setup = std::fs::read_to_string(Path::new(HERE).join("setup.yaml"))?;
    for optional in [AUDIENCES, NODES, HEARTBEAT] {
        rome.apply(&std::fs::read_to_string(optional)?).await?;
    }
    // The API server learns of kinds, policies and their parameters a moment later.
    wait::until("all is there that the account finds", PATIENCE, || async {
        rome.apply(&setup).await.map(|()| true)
    })
    .await?;
    let late = ["-n", "late", "patch", "namespaceoffload", "default", "--type", "merge"];
    let no_more = [&late[..], &["-p", r#"{"spec": {"apiAccess": "none"}}"#]].concat();
    rome.kubectl(&no_more).await?.ok()?;
    let client = rome.client().await?;
    wait::until("the policies hold", PATIENCE, || holds(&client)).await?;
    let request = request_for_certificate()?;
    let (mut wrong, mut count) = (Vec::new(), 0);
    // The daemon's ends what it may end: it is the last.
    for account in ACCOUNTS.iter().rev() {
        for case in account.cases()? {
            for one in &case.tries {
                count += 1;
                let answer = ask(&client, account.name, one, &request).await?;
                if answer.0 != one.answer {
                    let (verbs, on) = (case.verbs.join(" "), &case.resource);
                    wrong.push(format!("{verbs} {on}, {}: {} {answer:?}", one.what, one.answer));
                }
            }
        }
    }
    println!("{count} tries");
    ensure!(wrong.is_empty(), "{wrong:#?}");
    kept(rome).await
}

/// What the account has tried is not there.
async fn kept(rome: &Cluster) -> Result<()> {
    let labels = ["get", "namespace", "kube-system", "shop", "-o", "jsonpath={..labels}"];
    let labels = rome.kubectl(&labels).await?.ok()?;
    ensure!(!labels.contains("mercato.dev/contract"), "{labels}");
    let bindings = ["get", "rolebindings", "-n", "kube-system", "-o", "name"];
    let bindings = rome.kubectl(&bindings).await?.ok()?;
    ensure!(!bindings.contains("mercato-namespace"), "{bindings}");
    Ok(())
}

async fn holds(client: &Client) -> Result<bool> {
    let probe = |ask: &str, body: Value| Try {
        what: "what is of another's".to_owned(),
        ask: ask.to_owned(),
        body: Some(body),
        answer: String::new(),
    };
    let node = json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "mercato-x" }, "spec": {} });
    let node = probe("POST /api/v1/nodes?dryRun=All", node);
    let event = json!({ "metadata": { "generateName": "x" }, "involvedObject": {} });
    let event = probe("POST /api/v1/namespaces/default/events?dryRun=All", event);
    let [daemon, heartbeat] = &ACCOUNTS;
    Ok(ask(client, daemon.name, &node, "").await?.0 == "mercato-nodes"
        && ask(client, heartbeat.name, &event, "").await?.0 == "mercato-heartbeat-events")
}

/// What refused it, and what was said.
async fn ask(
    client: &Client,
    account: &str,
    one: &Try,
    certificate: &str,
) -> Result<(String, String)> {
    let (method, path) = one.ask.split_once(' ').context("method and path")?;
    let content = match (method, path.contains("/mercato.dev/")) {
        // Into a list of which others write as well.
        ("PATCH", _) if one.body.as_ref().is_some_and(Value::is_array) => {
            "application/json-patch+json"
        }
        ("PATCH", true) => "application/merge-patch+json",
        ("PATCH", false) => "application/strategic-merge-patch+json",
        _ => "application/json",
    };
    let body = one.body.as_ref().map(Value::to_string).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("impersonate-user", account)
        .header("content-type", content)
        .body(body.replace("@CSR@", certificate).into_bytes())?;
    let status = match client.request_text(request).await {
        Ok(_) => return Ok(("allowed".to_owned(), String::new())),
        Err(kube::Error::Api(status)) => status,
        Err(error) => return Err(error).with_context(|| one.ask.clone()),
    };
    let policy = status.message.split_once("ValidatingAdmissionPolicy '");
    let who = match policy.and_then(|(_, rest)| rest.split_once('\'')) {
        Some((policy, _)) => policy.to_owned(),
        None if status.code == 403 => "roles".to_owned(),
        None => format!("{}", status.code),
    };
    Ok((who, status.message.clone()))
}

fn request_for_certificate() -> Result<String> {
    let request = CertificateParams::new(["mercato-x".to_owned()])?;
    let request = request.serialize_request(&KeyPair::generate()?)?;
    Ok(BASE64.encode(request.pem()?))
}
