//! `mercato doctor`: what stands in the way, and what to do about it.

use std::time::Duration;

use mercato_config::settings;
use mercato_kubelet::Cluster;
use mercato_kubelet::diagnose::uninstalls;
use mercato_protocol::text::shown;
use tokio::time::timeout;

use super::global::{Global, Way};
use super::screen::{Screen, print};
use super::table::{folded, wrapped};
use crate::admin::{Class, Problem};
use crate::daemon::{HEALTH_PORT, PORT};
use crate::desk::Place;
use crate::doctor::{Finding, Verdict, machine, uninstall};
use crate::kubernetes::real::client;
use crate::present::style::Style;

/// For a look at a cluster without its daemon.
const LOOK: Duration = Duration::from_secs(5);
/// Where a finding's text begins.
const INDENT: usize = 22;

/// Asks the daemon; where there is none, looks at what can be seen without.
pub(crate) async fn doctor(global: &Global, screen: &Screen) -> Result<String, Problem> {
    let api = global.api();
    // Who has named a cluster does not ask about this machine.
    let elsewhere = matches!(global.way(), Way::Cluster { instead_of: None, .. });
    let findings = match api.doctor().await {
        Ok(findings) => findings,
        Err(problem) if problem.class == Class::Unreachable => {
            let left = left_by_uninstall(global).await;
            if elsewhere && left.is_none() {
                return Err(problem);
            }
            let machine = if elsewhere { Vec::new() } else { alone(global) };
            [vec![unreachable(problem)], machine, left.into_iter().collect()].concat()
        }
        Err(problem) => return Err(problem),
    };
    print(
        &screen
            .render(&findings, || findings.iter().map(|one| line(one, screen.style)).collect())?,
    )?;
    let failed = findings.iter().filter(|one| one.verdict == Verdict::Fail).count();
    match failed {
        0 => Ok(String::new()),
        1 => Err(Problem::failed("1 check failed")),
        failed => Err(Problem::failed(format!("{failed} checks failed"))),
    }
}

fn unreachable(problem: Problem) -> Finding {
    problem.todo.into_iter().fold(Finding::fail("daemon", problem.what), Finding::todo)
}

/// What an uninstallation that took the daemon away has left in the cluster that kubectl would ask, as
/// far as this person may look, and that is soon to be known.
async fn left_by_uninstall(global: &Global) -> Option<Finding> {
    let Way::Cluster { place: Place { kubeconfig, context }, .. } = global.way() else {
        return None;
    };
    let settings = settings::Kubernetes { kubeconfig, context, ..Default::default() };
    let look = async {
        let cluster = Cluster::new(client(&settings).await.ok()?);
        uninstalls(&cluster).await.ok().filter(|left| left.any())
    };
    timeout(LOOK, look).await.ok().flatten().map(uninstall)
}

/// What can be seen of this machine.
fn alone(global: &Global) -> Vec<Finding> {
    let mut findings = Vec::new();
    let dir = global.data_dir();
    if dir.exists() {
        findings.push(machine::data(&dir));
    }
    findings.extend(machine::free_ports(PORT, HEALTH_PORT));
    findings.push(machine::offloads());
    findings
}

fn line(finding: &Finding, style: Style) -> String {
    let verdict = match finding.verdict {
        Verdict::Ok => style.good("ok  "),
        Verdict::Warn => style.faint("warn"),
        Verdict::Fail => style.bad("fail"),
    };
    let mut text = format!("{verdict}  {:<14}  ", shown(&finding.check));
    text += &wrapped(&shown(&finding.what), INDENT);
    text.push('\n');
    for todo in &finding.todo {
        text += &advice(&shown(todo));
        text.push('\n');
    }
    text
}

/// What to do about it, in lines that fit. A command alone stays in one, to be copied.
fn advice(todo: &str) -> String {
    let line = format!("{:INDENT$}→ {todo}", "");
    let commands = ["chmod ", "kubectl ", "mercato "];
    let alone = commands.iter().any(|it| todo.starts_with(it)) && !todo.contains("; ");
    if alone { line } else { folded(&line, INDENT + 2) }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;
    use crate::cli::args::Cli;
    use crate::cli::table::WIDTH;

    const BINDINGS: [&str; 2] = [
        "GET /apis/rbac.authorization.k8s.io/v1/clusterrolebindings/mercato-uninstall ",
        "GET /apis/rbac.authorization.k8s.io/v1/namespaces/mercato/rolebindings/mercato-uninstall ",
    ];

    /// The kubeconfig of a cluster that answers each look at that binding so, and all else as what it
    /// has not.
    async fn answering(binding: &'static str, status: &'static str) -> (TempDir, Global) {
        // Another test may have been first.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut asked = [0; 4_096];
                let length = stream.read(&mut asked).await.unwrap();
                let is_binding = asked[..length].starts_with(binding.as_bytes());
                let status = if is_binding { status } else { "404 Not Found" };
                let code: u16 = status[..3].parse().unwrap();
                let body = format!(
                    r#"{{ "kind": "Status", "apiVersion": "v1", "code": {code}, "message": "" }}"#
                );
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\
                     content-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let config = serde_json::json!({
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{server}") } }],
            "users": [], "contexts": [{ "name": "c", "context": { "cluster": "c" } }],
            "current-context": "c",
        });
        std::fs::write(&file, config.to_string()).unwrap();
        let line = ["mercato", "doctor", "--kubeconfig", file.to_str().unwrap()];
        let global = Cli::try_parse_from(line).unwrap().global;
        (folder, global)
    }

    #[tokio::test]
    async fn without_a_daemon_it_is_seen_what_an_uninstallation_has_left() {
        for binding in BINDINGS {
            let (_folder, global) = answering(binding, "200 OK").await;
            let left = left_by_uninstall(&global).await.unwrap();
            let is_named = |line: &String| line.contains(" delete ");
            assert!(left.todo.iter().any(is_named), "{binding}: {left:?}");
            let seen = doctor(&global, &Screen::new(&global)).await.unwrap_err();
            assert_eq!(seen.what, "1 check failed");
        }
        for status in ["404 Not Found", "403 Forbidden"] {
            let (_folder, global) = answering(BINDINGS[0], status).await;
            assert_eq!(left_by_uninstall(&global).await, None);
            let unreachable = doctor(&global, &Screen::new(&global)).await.unwrap_err();
            assert_eq!(unreachable.class, Class::Unreachable, "{unreachable}");
        }
    }

    #[test]
    fn advice_fits_and_a_command_stays_in_a_line() {
        let sentence = "kubectl apply -f config/deploy/; whoever takes the daemon has the cluster";
        let named =
            "to see why the provider cannot be reached from here: mercato peer ping turin:7474";
        let command =
            format!("kubectl -n kube-system patch daemonset proxy -p '{}'", "x ".repeat(40));
        let finding = Finding::warn("policies", "they do not hold").todo(sentence).todo(named);
        let text = line(&finding.clone().todo(&*command), Style::detect(true));
        let (advice, last) = text.trim_end().rsplit_once('\n').unwrap();
        assert!(advice.lines().all(|line| line.width() <= WIDTH), "{text}");
        assert!(
            advice.ends_with("\n                        mercato peer ping turin:7474"),
            "{text}"
        );
        assert_eq!(last.trim_start(), format!("→ {command}"));
    }
}
