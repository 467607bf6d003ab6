//! `mercato doctor`: what stands in the way, and what to do about it.

use mercato_protocol::text::shown;

use super::global::{Global, Way};
use super::screen::{Screen, print};
use super::table::{folded, wrapped};
use crate::admin::{Class, Problem};
use crate::daemon::{HEALTH_PORT, PORT};
use crate::doctor::{Finding, Verdict, machine};
use crate::present::style::Style;

/// Where a finding's text begins.
const INDENT: usize = 22;

/// Asks the daemon; where there is none, looks at what can be seen without.
pub(crate) async fn doctor(global: &Global, screen: &Screen) -> Result<String, Problem> {
    let api = global.api();
    // Who has named a cluster does not ask about this machine.
    let elsewhere = matches!(global.way(), Way::Cluster { instead_of: None, .. });
    let findings = match api.doctor().await {
        Ok(findings) => findings,
        Err(problem) if problem.class == Class::Unreachable && !elsewhere => {
            alone(global, problem).await
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

async fn alone(global: &Global, problem: Problem) -> Vec<Finding> {
    let daemon = Finding::fail("daemon", problem.what);
    let mut findings = vec![problem.todo.into_iter().fold(daemon, Finding::todo)];
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
    use unicode_width::UnicodeWidthStr as _;

    use super::*;
    use crate::cli::table::WIDTH;

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
