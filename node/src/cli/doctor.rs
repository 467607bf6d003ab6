//! `mercato doctor`: what stands in the way, and what to do about it.

use super::args::Global;
use super::screen::{Screen, print};
use super::style::Style;
use crate::admin::{Class, Client, Desk, Problem};
use crate::daemon::{HEALTH_PORT, PORT};
use crate::doctor::{Finding, Verdict, machine};

/// Where a finding's text begins.
const INDENT: usize = 22;
const WIDTH: usize = super::table::WIDTH;

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
    let plain = |text: &str| text.replace(char::is_control, " ");
    let mut text = format!("{verdict}  {:<14}  ", plain(&finding.check));
    text += &wrapped(&plain(&finding.what));
    for todo in &finding.todo {
        // A command must stay one line, to be copied.
        text += &format!("{:INDENT$}→ {}\n", "", plain(todo));
    }
    text
}

fn wrapped(text: &str) -> String {
    let (mut lines, mut room) = (String::new(), WIDTH - INDENT);
    for word in text.split(' ') {
        let length = word.chars().count();
        if length + 1 > room && room < WIDTH - INDENT {
            lines += &format!("\n{:INDENT$}", "");
            room = WIDTH - INDENT;
        }
        if room < WIDTH - INDENT {
            lines.push(' ');
            room = room.saturating_sub(1);
        }
        lines += word;
        room = room.saturating_sub(length);
    }
    lines + "\n"
}
