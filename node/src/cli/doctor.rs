//! `mercato doctor`: what stands in the way, and what to do about it.

use mercato_protocol::text::shown;

use super::args::Global;
use super::screen::{Screen, print};
use super::style::Style;
use super::table::wrapped;
use crate::admin::{Class, Client, Desk, Problem};
use crate::daemon::{HEALTH_PORT, PORT};
use crate::doctor::{Finding, Verdict, machine};

/// Where a finding's text begins.
const INDENT: usize = 22;

/// Asks the daemon; where there is none, looks at what can be seen without.
pub(crate) async fn doctor(global: &Global, screen: &Screen) -> Result<String, Problem> {
    let client = Client::new(global.socket(), global.answer_timeout());
    let desk: &dyn Desk = &client;
    let findings = match desk.doctor().await {
        Ok(findings) => findings,
        Err(problem) if problem.class == Class::Unreachable => alone(global, problem).await,
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
        // A command must stay one line, to be copied.
        text += &format!("{:INDENT$}→ {}\n", "", shown(todo));
    }
    text
}
