//! The chart of `config/deploy/chart` as Helm renders it, and the manifests beside it as kubectl takes
//! them: no cluster is asked. Every value of the schema changes something, ports and probes follow the
//! configuration, credentials are where pods are, and an upgrade turns nothing on.

mod helm;
mod values;

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::suite::{self, Stage, Test};
use serde_json::{Value, json};

use helm::Helm;
use values::{COMPANIONS, VALUES};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/deploy");
const SCHEMA: &str = include_str!("../../../config/deploy/chart/values.schema.json");
/// With a login, as `docker login` writes it.
const LOGIN: &str = r#"{"auths":{"registry.example":{"auth":"cm9tZTpzZWNyZXQ="}}}"#;

fn main() -> ExitCode {
    let tests = vec![
        Test::ci("every_value_of_the_schema_changes_something", |s| Box::pin(async { values(s) })),
        Test::ci("what_is_no_port_is_refused", |s| Box::pin(async { no_ports(s) })),
        Test::ci("ports_and_probes_follow_the_configuration", |s| Box::pin(async { ports(s) })),
        Test::ci("credentials_are_where_pods_are", |s| Box::pin(async { credentials(s) })),
        Test::ci("an_upgrade_turns_no_gateway_on", |s| Box::pin(async { upgrade(s) })),
        Test::ci("what_keeps_the_nodes_is_apart_from_the_daemon", |s| {
            Box::pin(async { heartbeat(s) })
        }),
        Test::ci("files_come_after_their_namespaces", |_| Box::pin(async { files() })),
        Test::ci("the_chart_installs_what_the_files_have", |s| Box::pin(async { installs(s) })),
    ];
    suite::run("chart", env!("CARGO_BIN_EXE_lab"), Vec::new(), tests)
}

fn values(stage: &Stage) -> Result<()> {
    let helm = Helm::of(stage);
    let schema: Value = serde_json::from_str(SCHEMA)?;
    let mut leaves = BTreeSet::new();
    values::leaves(&schema, "", &mut leaves);
    let rows: BTreeSet<_> = VALUES.iter().map(|(path, _)| (*path).to_owned()).collect();
    ensure!(leaves == rows, "no row, or no value: {:?}", leaves.symmetric_difference(&rows));
    let mut whole = values::needed();
    for (path, text) in VALUES {
        let mut without = values::needed();
        for (_, companion, text) in COMPANIONS.iter().filter(|(of, _, _)| of == path) {
            values::set(&mut without, companion, serde_json::from_str(text)?);
        }
        let value: Value = serde_json::from_str(text).with_context(|| (*path).to_owned())?;
        let mut with = without.clone();
        values::set(&mut with, path, value.clone());
        let (without, with) = (helm.template(&without, &[])?, helm.template(&with, &[])?);
        ensure!(without != with, "{path} changes nothing of what is rendered");
        values::set(&mut whole, path, value);
    }
    helm.lint(&values::needed())?;
    helm.lint(&whole)
}

fn no_ports(stage: &Stage) -> Result<()> {
    let helm = Helm::of(stage);
    let mut paths = BTreeSet::new();
    values::ports(&serde_json::from_str(SCHEMA)?, "", &mut paths);
    ensure!(paths.contains("config.health") && paths.len() > 8, "{paths:?}");
    for path in paths {
        let row = VALUES.iter().find(|(of, _)| *of == path).context("a row")?;
        for port in [0, 65_536, 99_999] {
            let wrong = match serde_json::from_str(row.1)? {
                Value::Number(_) => json!(port),
                Value::String(_) => json!(format!("192.0.2.7:{port}")),
                list @ (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                    json!([format!("{}:{port}", list[0].as_str().unwrap_or_default())])
                }
            };
            let mut all = values::needed();
            values::set(&mut all, &path, wrong);
            let said = helm.template(&all, &[]).err().context(path.clone())?.to_string();
            let field = path.replace('.', "/");
            ensure!(said.contains(&path) || said.contains(&field), "{path}={port}: {said}");
        }
        for port in [1, 9_999, 59_999, 65_535] {
            ensure!(helm.takes(&path, row.1, port)?, "{path} takes no port {port}");
        }
    }
    Ok(())
}

fn ports(stage: &Stage) -> Result<()> {
    let helm = Helm::of(stage);
    for (health, host) in
        [("0.0.0.0:9000", "127.0.0.1"), ("[::]:9000", "::1"), ("192.0.2.7:9000", "192.0.2.7")]
    {
        let mut all = values::needed();
        values::set(&mut all, "config.health", json!(health));
        values::set(&mut all, "metrics.enabled", json!(true));
        values::set(&mut all, "config.listen", json!(["0.0.0.0:7000", "[::]:7000", "[::]:7001"]));
        values::set(&mut all, "config.gateway.port", json!(7002));
        values::set(&mut all, "config.kubernetes.adminPort", json!(7003));
        let objects = helm.objects(&all, &[])?;
        let daemon = helm::find(&objects, "Deployment", "mercato")?;
        let container = &daemon["spec"]["template"]["spec"]["containers"][0];
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let get = &container[probe]["httpGet"];
            ensure!(get["port"] == 9000 && get["host"] == host, "{health}: {probe} asks {get}");
        }
        let ports = container["ports"].as_array().context("ports")?;
        let ports: Vec<_> = ports.iter().map(|port| port["containerPort"].to_string()).collect();
        let expected = "7000 7000 7001 7001 9000 7481 7003 7002 7478";
        ensure!(ports.join(" ") == expected, "{ports:?}");
        let service = helm::find(&objects, "Service", "mercato-metrics")?;
        ensure!(service["spec"]["ports"][0]["port"] == 9000, "{service}");
    }
    let mut all = values::needed();
    values::set(&mut all, "config.health", json!("127.0.0.1:9000"));
    values::set(&mut all, "metrics.enabled", json!(true));
    let said = helm.template(&all, &[]).err().context("nobody reaches it")?.to_string();
    ensure!(said.contains("config.health"), "{said}");
    Ok(())
}

/// Each pod of the chart names the same Secrets, and the gates of guests have them by the daemon.
fn credentials(stage: &Stage) -> Result<()> {
    let helm = Helm::of(stage);
    let mut all = values::needed();
    values::set(&mut all, "approver", json!(true));
    let pods = |all: &Value| -> Result<Vec<(String, Value)>> {
        let objects = helm.objects(all, &[])?;
        let specs = objects.iter().filter_map(|object| {
            let template = &object["spec"]["template"]["spec"];
            let spec = if object["kind"] == "Pod" { &object["spec"] } else { template };
            let secrets = spec["imagePullSecrets"].as_array().cloned().unwrap_or_default();
            spec.is_object().then(|| (object["metadata"]["name"].to_string(), json!(secrets)))
        });
        Ok(specs.collect())
    };
    let open = pods(&all)?;
    ensure!(open.len() == 6 && open.iter().all(|(_, secrets)| *secrets == json!([])), "{open:?}");
    values::set(&mut all, "image.credentials", json!(LOGIN));
    values::set(&mut all, "imagePullSecrets", json!([{ "name": "there" }]));
    let both = json!([{ "name": "there" }, { "name": "mercato-registry" }]);
    let named = pods(&all)?;
    ensure!(named.len() == 6 && named.iter().all(|(_, secrets)| *secrets == both), "{named:?}");

    let objects = helm.objects(&all, &[])?;
    let is_ours = |object: &&Value| object["kind"] == "Secret";
    let namespaces = objects.iter().filter(is_ours).map(|it| &it["metadata"]["namespace"]);
    let namespaces: Vec<_> = namespaces.collect();
    ensure!(namespaces == ["mercato", "mercato-nodes"], "{namespaces:?}");
    let config = helm::find(&objects, "ConfigMap", "mercato")?;
    let config = config["data"]["mercato.yaml"].as_str().context("a configuration")?;
    let config: Value = serde_saphyr::from_str(config)?;
    let files = config["gateway"]["nodes"]["imagePullSecrets"].as_array().context("files")?;
    let daemon = helm::find(&objects, "Deployment", "mercato")?;
    let spec = &daemon["spec"]["template"]["spec"];
    let mounts = spec["containers"][0]["volumeMounts"].as_array().context("mounts")?;
    let mount = mounts.iter().find(|it| it["name"] == "registry").context("no mount")?;
    let at = mount["mountPath"].as_str().context("a path")?;
    let expected = ["there", "mercato-registry"].map(|name| json!(format!("{at}/{name}")));
    ensure!(*files == expected, "{files:?}");

    values::set(&mut all, "image.credentials", json!("{\"credsStore\":\"desktop\"}"));
    let said = helm.template(&all, &[]).err().context("it has no login")?.to_string();
    ensure!(said.contains("--set-file image.credentials"), "{said}");
    Ok(())
}

/// What the cluster has of the release is not asked here: of one that says nothing the gateway is off.
fn upgrade(stage: &Stage) -> Result<()> {
    let (helm, all) = (Helm::of(stage), values::needed());
    let has = |objects: &[Value]| helm::find(objects, "DaemonSet", "mercato-node").is_ok();
    ensure!(has(&helm.objects(&all, &[])?), "a new release has no gateway");
    ensure!(!has(&helm.objects(&all, &["--is-upgrade"])?), "an upgrade starts a gateway");
    let mut on = values::needed();
    values::set(&mut on, "config.gateway.enabled", json!(true));
    ensure!(has(&helm.objects(&on, &["--is-upgrade"])?), "a gateway that is asked for is off");
    Ok(())
}

/// Whatever else is set: two of it, on other nodes than the daemon where there are some, for as long as is
/// said; and from a node that is gone the daemon goes soon.
fn heartbeat(stage: &Stage) -> Result<()> {
    let helm = Helm::of(stage);
    let mut all = values::needed();
    values::set(&mut all, "heartbeat.keepAlive", json!("90s"));
    values::set(&mut all, "tolerations", json!([{ "key": "a", "operator": "Exists" }]));
    let away = |objects: &[Value], of: &str| -> Result<(Value, Vec<Value>)> {
        let spec = helm::find(objects, "Deployment", of)?["spec"].clone();
        let pod = &spec["template"]["spec"];
        let apart = &pod["affinity"]["podAntiAffinity"];
        let apart = apart["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
        let whom = |term: &Value| term["podAffinityTerm"]["labelSelector"]["matchLabels"].clone();
        let whom = apart.into_iter().flatten().map(whom).collect();
        Ok((spec, whom))
    };
    let is = |labels: &Value, name: &str| labels["app.kubernetes.io/name"] == name;
    let objects = helm.objects(&all, &[])?;
    let (spec, apart) = away(&objects, "mercato-heartbeat")?;
    let pod = &spec["template"]["spec"];
    let args = &pod["containers"][0]["args"];
    ensure!(*args == json!(["heartbeat", "--keep-alive", "90s"]), "{args}");
    ensure!(spec["replicas"] == 2 && pod["tolerations"][0]["key"] == "a", "{spec}");
    ensure!(pod["priorityClassName"] == "system-cluster-critical", "{pod}");
    let both = ["mercato-heartbeat", "mercato"];
    ensure!(both.iter().all(|name| apart.iter().any(|of| is(of, name))), "{apart:?}");
    helm::find(&objects, "PodDisruptionBudget", "mercato-heartbeat")?;
    let (spec, apart) = away(&objects, "mercato")?;
    ensure!(apart.len() == 1 && is(&apart[0], "mercato-heartbeat"), "{apart:?}");
    let tolerations = &spec["template"]["spec"]["tolerations"];
    let gone = "node.kubernetes.io/unreachable";
    ensure!(tolerations[0]["key"] == gone && tolerations[0]["tolerationSeconds"] == 30);
    ensure!(tolerations[1]["key"] == "a", "{tolerations}");

    values::set(&mut all, "heartbeat.enabled", json!(false));
    values::set(&mut all, "priorityClassName", json!(""));
    let objects = helm.objects(&all, &[])?;
    ensure!(away(&objects, "mercato-heartbeat").is_err(), "it is off");
    ensure!(away(&objects, "mercato")?.1.is_empty(), "nothing is there to be apart from");
    values::set(&mut all, "heartbeat", Value::Null);
    let (spec, _) = away(&helm.objects(&all, &["--is-upgrade"])?, "mercato-heartbeat")?;
    let pod = &spec["template"]["spec"];
    ensure!(pod["containers"][0]["args"][2] == "1h" && pod["priorityClassName"].is_null(), "{pod}");
    values::set(&mut all, "heartbeat.keepAlive", json!("soon"));
    ensure!(helm.template(&all, &[]).is_err(), "this is no length of time");
    Ok(())
}

/// The objects of `kubectl apply -f config/deploy/`, which takes files by their names.
fn applied() -> Result<Vec<Value>> {
    let mut files: Vec<_> = std::fs::read_dir(DEPLOY)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    files.sort();
    ensure!(files.len() > 3, "{files:?}");
    let texts: Vec<_> = files.iter().map(std::fs::read_to_string).collect::<Result<_, _>>()?;
    let all: Vec<_> = texts.iter().map(|text| helm::documents(text)).collect::<Result<_>>()?;
    Ok(all.into_iter().flatten().collect())
}

/// Whoever has the chart needs no file beside it.
fn installs(stage: &Stage) -> Result<()> {
    let objects = Helm::of(stage).objects(&values::needed(), &[])?;
    for object in applied()? {
        let [kind, name] = [&object["kind"], &object["metadata"]["name"]].map(Value::as_str);
        helm::find(&objects, kind.context("a kind")?, name.context("a name")?)?;
    }
    Ok(())
}

fn files() -> Result<()> {
    let all = applied()?;
    let made = |object: &&Value| object["kind"] == "Namespace";
    let made: BTreeSet<_> =
        all.iter().filter(made).filter_map(|it| it["metadata"]["name"].as_str()).collect();
    ensure!(made.contains("mercato"), "{made:?}");
    let mut there = BTreeSet::new();
    for object in &all {
        let metadata = &object["metadata"];
        if object["kind"] == "Namespace" {
            there.extend(metadata["name"].as_str());
        }
        let within = metadata["namespace"].as_str().filter(|name| made.contains(name));
        let is_early = within.is_some_and(|namespace| !there.contains(namespace));
        ensure!(!is_early, "{} {} comes before its namespace", object["kind"], metadata["name"]);
    }
    Ok(())
}
