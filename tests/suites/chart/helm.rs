//! Helm, which renders the chart, and what it has rendered as objects.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::suite::Stage;
use serde_json::{Value, json};

use crate::{DEPLOY, values};

/// The program of the toolchain, which asks no cluster.
pub(crate) struct Helm(PathBuf);

impl Helm {
    /// The one that the bed has.
    pub(crate) fn of(stage: &Stage) -> Self {
        Self(stage.toolchain.program("helm"))
    }

    /// What the chart comes to with these values.
    pub(crate) fn template(&self, values: &Value, more: &[&str]) -> Result<String> {
        let chart = format!("{DEPLOY}/chart");
        self.run(&[&["template", "mercato", &chart, "--values", "-"][..], more].concat(), values)
    }

    /// The same as objects, hooks among them.
    pub(crate) fn objects(&self, values: &Value, more: &[&str]) -> Result<Vec<Value>> {
        documents(&self.template(values, more)?)
    }

    /// Whether Helm finds nothing to say against these values.
    pub(crate) fn lint(&self, values: &Value) -> Result<()> {
        let chart = format!("{DEPLOY}/chart");
        self.run(&["lint", &chart, "--strict", "--values", "-"], values).map(drop)
    }

    /// Whether a value that names a port, written as in `row`, may name this one.
    pub(crate) fn takes(&self, path: &str, row: &str, port: u16) -> Result<bool> {
        let value = match serde_json::from_str(row)? {
            Value::Number(_) => json!(port),
            Value::String(_) => json!(format!("192.0.2.7:{port}")),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                json!([format!("192.0.2.7:{port}")])
            }
        };
        let mut all = values::needed();
        values::set(&mut all, path, value);
        Ok(self.template(&all, &[]).is_ok())
    }

    fn run(&self, args: &[&str], values: &Value) -> Result<String> {
        let mut helm = Command::new(&self.0)
            .args(args)
            .env("KUBECONFIG", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", self.0.display()))?;
        let mut given = helm.stdin.take().context("its input")?;
        given.write_all(values.to_string().as_bytes())?;
        drop(given);
        let said = helm.wait_with_output()?;
        let [out, complained] =
            [&said.stdout, &said.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        ensure!(
            said.status.success(),
            "{}{complained}",
            if args[0] == "lint" { &*out } else { "" }
        );
        Ok(out)
    }
}

/// The objects of a file that has several.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>> {
    let documents = format!("\n{text}");
    let parts = documents.split("\n---").map(|part| part.trim_start_matches(' '));
    let is_some = |part: &&str| {
        part.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    };
    let read = |part: &str| serde_saphyr::from_str(part).with_context(|| part.to_owned());
    parts.filter(is_some).map(read).collect()
}

/// The object of that kind and name.
pub(crate) fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> Result<&'a Value> {
    let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    objects.iter().find(is_it).with_context(|| format!("no {kind} {name}"))
}
