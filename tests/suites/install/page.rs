//! The second half of the quick start, for clusters of one's own, word for word: its commands are read out
//! of docs/quickstart.md and typed into one shell at a desk from which both API servers are reached. Each
//! has to end well. What the bed has not is a builder of images and a registry: the image is there.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cluster, Output};
use mercato_tests::dockerfile::{self, Dockerfile};
use mercato_tests::image;
use mercato_tests::installed::Installed;
use mercato_tests::suite::Stage;
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../docs/quickstart.md");
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// What a registry that asks would be shown.
const LOGIN: &str = r#"{"auths":{"mercato.test":{"auth":"cm9tZTpzZWNyZXQ="}}}"#;
/// Where the daemons' health is, in the place of the usual port.
const HEALTH: &str = "127.0.0.1:7486";

/// What rome calls itself, which nobody tells its daemon.
pub(crate) const DOMAIN: &str = "rome.example";

/// Who answers the questions of `peer trust`, and tries again what waits for daemons that find each other.
const PERSON: &str = r#"
set -u -o pipefail
docker() { :; }
cargo() { :; }
helm() { command helm "$@" --timeout 180s --values "$VALUES"; }
mercato() {
  case " $* " in
    *" peer trust "*) command mercato "$@" --yes ;;
    *) command mercato "$@" ;;
  esac
}
once() {
  eval "$1" || { echo "this fails: $1" >&2; exit 1; }
}
try() {
  local until=$((SECONDS + 120))
  until eval "$1"; do
    [ "$SECONDS" -lt "$until" ] || { echo "this fails: $1" >&2; exit 1; }
    sleep 1
  done
}
"#;

/// From nothing to a pod that was bought and answers, and back to nothing.
pub(crate) async fn works_as_it_stands(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let program = stage.program("mercato")?;
    let commands = commands(PAGE)?;
    is_built_so(&commands)?;
    // That of another test.
    let shop = ["delete", "namespace", "shop", "--ignore-not-found", "--timeout=180s"];
    rome.kubectl(&shop).await?.ok()?;
    let before = [rome.objects().await?, turin.objects().await?];
    for cluster in [rome, turin] {
        Installed::forget(cluster)?;
        Installed::prepare(cluster, &program).await?;
    }
    let said = typed(rome, turin, &program, &commands).await?;
    ensure!(said.contains("nginx"), "the pod over there does not answer: {said}");
    has_login_and_names(turin).await?;

    let manifest = format!("{CHECKOUT}/docs/quickstart.yaml");
    rome.kubectl(&["delete", "--timeout=180s", "-f", &manifest]).await?.ok()?;
    rome.kubectl(&shop).await?.ok()?;
    for (cluster, before) in [rome, turin].into_iter().zip(&before) {
        Installed::at(cluster).uninstall().await.context("helm uninstall")?;
        cluster.is_as_before(before).await?;
    }
    Ok(())
}

/// The image is built in the folder of the clone, and the desk's program as the image's.
fn is_built_so(commands: &[&str]) -> Result<()> {
    let build = Dockerfile::read(dockerfile::TEXT)?.build;
    ensure!(commands.contains(&build.as_str()), "the program is not built by {build}");
    let in_clone = |command: &&&str| {
        command.starts_with("docker build -f config/deploy/Dockerfile ") && command.ends_with(" .")
    };
    ensure!(commands.iter().find(in_clone).is_some(), "the image is built elsewhere");
    Ok(())
}

/// All of it, at a desk in rome's network.
async fn typed(
    rome: &Cluster,
    turin: &Cluster,
    program: &Path,
    commands: &[&str],
) -> Result<String> {
    let desk = tempfile::tempdir()?;
    let (repository, tag) = image::MERCATO.rsplit_once(':').context("an image has a tag")?;
    let values = json!({
        "image": { "tag": tag, "credentials": LOGIN },
        "persistence": { "storageClass": "-" },
        "config": { "health": HEALTH },
    });
    let [values_file, kubeconfig] = ["values.yaml", "kubeconfig"].map(|it| desk.path().join(it));
    std::fs::write(&values_file, values.to_string())?;
    std::fs::write(&kubeconfig, both(rome, turin).await?.to_string())?;
    let lines = commands.iter().map(|command| {
        // Who finds nobody yet, or asks a pod that starts, tries again.
        let waits = command.starts_with("mercato ") || command.contains(" get --raw ");
        let there = command
            .replace("registry.example/mercato", repository)
            .replace(",nginx:1,", ",mercato.test/nginx:1,");
        let quoted = there.replace('\'', r"'\''");
        format!("{} '{quoted}'\n", if waits { "try" } else { "once" })
    });
    let mut shell = rome.command("bash")?;
    let own = [program.parent().unwrap_or(Path::new("/")).to_owned(), rome.programs()];
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = own.into_iter().chain(std::env::split_paths(&paths));
    shell.env("PATH", std::env::join_paths(paths)?);
    shell.env("KUBECONFIG", &kubeconfig).env("VALUES", &values_file).current_dir(CHECKOUT);
    shell.args(["-c", &format!("{PERSON}{}", lines.collect::<String>())]).stdin(Stdio::null());
    Output::from(shell.output().await?).ok()
}

/// Both administrators, by the names of the clusters as contexts.
async fn both(rome: &Cluster, turin: &Cluster) -> Result<Value> {
    let mut all = json!({ "apiVersion": "v1", "kind": "Config",
        "clusters": [], "users": [], "contexts": [] });
    for cluster in [rome, turin] {
        let view = ["config", "view", "--raw", "--minify", "--flatten", "-o", "json"];
        let one: Value = serde_json::from_str(&cluster.kubectl(&view).await?.ok()?)?;
        let name = cluster.name();
        let context = json!({ "cluster": name, "user": name });
        for (list, key, what) in [
            ("clusters", "cluster", one["clusters"][0]["cluster"].clone()),
            ("users", "user", one["users"][0]["user"].clone()),
            ("contexts", "context", context),
        ] {
            let list = all[list].as_array_mut().context("a list")?;
            list.push(json!({ "name": name, key: what }));
        }
    }
    Ok(all)
}

/// The guest namespace has what its nodes would show the registry, and the guest asks for names as at
/// home.
async fn has_login_and_names(turin: &Cluster) -> Result<()> {
    let guests = ["get", "namespaces", "-l", "mercato.dev/contract", "-o", "name"];
    let guests = turin.kubectl(&guests).await?.ok()?;
    let namespace = guests.trim().strip_prefix("namespace/").context("one guest namespace")?;
    let secret = ["-n", namespace, "get", "secret", "mercato-gate", "-o", "jsonpath={.type}"];
    let secret = turin.kubectl(&secret).await?.ok()?;
    ensure!(secret == "kubernetes.io/dockerconfigjson", "{secret}");
    let fields =
        "jsonpath={.items[0].spec.imagePullSecrets[0].name} {.items[0].spec.dnsConfig.searches}";
    let guest = turin.kubectl(&["-n", namespace, "get", "pods", "-o", fields]).await?.ok()?;
    let (secret, searched) = guest.split_once(' ').context("a guest")?;
    ensure!(secret == "mercato-gate", "the guest names {secret}");
    ensure!(searched.contains(&format!("\"svc.{DOMAIN}\"")), "the guest looks in {searched}");
    Ok(())
}

/// What a person types for clusters of their own, in order.
fn commands(page: &str) -> Result<Vec<&str>> {
    let (_, section) = page.split_once("\n## Two clusters of your own\n").context("no section")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    Ok(section.lines().filter_map(|line| line.strip_prefix("$ ")).collect())
}
