//! What can be typed: helps, examples, mistakes, and the exit codes that say them.

use clap::Parser as _;
use mercato_broker::Refusal;
use mercato_protocol::id::PublicKey;

use super::{ORDER, TURIN, fits};
use crate::admin::{Class, Problem};
use crate::cli::args::{self, Cli};
use crate::cli::manual::Manual;

#[test]
fn every_command_is_well_formed_and_has_two_examples() {
    fn check(command: &clap::Command) {
        let subcommands: Vec<_> = command.get_subcommands().collect();
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = help.lines().filter(|line| line.starts_with("  mercato ")).count();
        assert_eq!(examples, 2, "{}", command.get_name());
        subcommands.into_iter().for_each(check);
    }
    args::command().debug_assert();
    check(&args::command());
}

#[test]
fn every_help_fits_and_shows_examples_before_options() {
    fn check(command: &mut clap::Command) {
        for help in [command.render_help(), command.render_long_help()] {
            let help = help.to_string();
            fits(&help);
            let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
            assert!(at("Usage:") < at("Examples:"), "{help}");
            assert!(at("Examples:") < at("Global options:"), "{help}");
            let first = help.lines().position(|line| line == "Examples:").unwrap();
            assert!(first < 8, "{help}");
        }
        command.get_subcommands_mut().filter(|it| it.get_name() != "help").for_each(check);
    }
    let mut command = args::command();
    command.build();
    check(&mut command);
}

#[test]
fn every_exit_code_is_documented_and_each_has_one_meaning() {
    let codes = Class::ALL.map(|(class, _)| class.exit_code());
    assert_eq!(codes, [1, 2, 3, 4, 5, 6, 130]);
    let help = args::command().render_help().to_string();
    let docs = include_str!("../../../../docs/operations.md");
    for (class, meaning) in Class::ALL {
        let code = class.exit_code();
        assert!(help.contains(&format!("\n  {code:<4}{meaning}\n")), "{code}: {help}");
        assert!(docs.contains(&format!("| {code} | {meaning} |")), "{code} {meaning}");
    }
}

#[test]
fn who_stops_and_who_asks_wrongly_is_told_apart() {
    let key = PublicKey([2; 32]);
    for (refusal, class) in [
        (Refusal::Untrusted { provider: TURIN, name: "turin".to_owned(), key }, Class::Failed),
        (Refusal::Blocked(TURIN), Class::Failed),
        (Refusal::Taken(ORDER), Class::Failed),
        (Refusal::Degraded, Class::Failed),
        (Refusal::TooMany, Class::Failed),
        (Refusal::Invalid("x".to_owned()), Class::Usage),
        (Refusal::NoMatch { seen: 1 }, Class::NoMatch),
        (Refusal::Unknown(ORDER), Class::NoMatch),
        (Refusal::Over(mercato_protocol::negotiation::TerminateReason::Denied), Class::Refused),
    ] {
        assert_eq!(Problem::from(refusal.clone()).class, class, "{refusal}");
    }
    let typed = |line: &str| args::command().try_get_matches_from(line.split(' ')).unwrap_err();
    for line in [
        "mercato",
        "mercato nonsense",
        "mercato browse --cpu -1",
        "mercato browse --memory lots",
        "mercato contracts resize 3f --cpu -1",
        "mercato run --name ../../etc",
        "mercato run --name=",
        "mercato run --simulated-cluster cpu=0,memory=1Gi",
        "mercato run --simulated-cluster cpu=4",
        "mercato order --cpu 1 --memory 1Gi --for 1h --note a\u{202e}b",
    ] {
        assert_eq!(typed(line).exit_code(), i32::from(Class::Usage.exit_code()), "{line}");
    }
    let said = typed("mercato browse --cpu -1").to_string();
    assert!(said.contains("expected") && !said.contains("unexpected"), "{said}");
    let said = typed("mercato run --simulated-cluster cpu=0,memory=1Gi").to_string();
    assert!(said.contains("cpu=8,memory=32Gi"), "{said}");
    let said = typed("mercato run --name ../../etc").to_string();
    assert!(said.contains("is not a name") && said.contains("for example rome"), "{said}");
}

#[test]
fn every_example_is_understood() {
    fn examples(command: &clap::Command, into: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help.lines().filter(|line| line.starts_with("  mercato "));
        into.extend(lines.map(|line| line.trim_start().to_owned()));
        command.get_subcommands().for_each(|command| examples(command, into));
    }
    let mut lines = Vec::new();
    examples(&args::command(), &mut lines);
    assert!(lines.len() > 30);
    for line in lines {
        // What stands between quotes is one word; a shell's sign outside of them ends it.
        let mut words = Vec::new();
        for (n, part) in line.split('\'').enumerate() {
            let typed = part.split([';', '>', '|', '&']).next().unwrap_or_default();
            match n % 2 {
                0 => words.extend(typed.split_whitespace()),
                _ => words.push(part),
            }
            if n % 2 == 0 && typed != part {
                break;
            }
        }
        if let Err(error) = Cli::try_parse_from(words) {
            panic!("{line}: {error}");
        }
    }
}

#[test]
fn a_wrong_argument_is_pointed_at() {
    let wrong = |line: &str| {
        let error = Cli::try_parse_from(line.split('_')).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    };
    let said = wrong("mercato_order_--cpu_8_--for_4 h");
    assert!(said.contains("expected a unit of time: s, m, h, d or w, for example 1h30m"), "{said}");
    assert!(said.contains("\n  4 h\n   ^"), "{said}");
    let said = wrong("mercato_share_set_--price_cpu=1 EUR");
    assert!(said.contains("\n  cpu=1 EUR\n           ^"), "{said}");
    let said = wrong("mercato_share_set_--class_gold");
    assert!(said.contains("spot, reserved"), "{said}");
    let said = wrong("mercato_browse_gpu.model=h100, gpu.mem>=80GB");
    assert!(said.contains("k, M, G or T, for example gpu.mem>=80Gi\n"), "{said}");
    assert!(said.contains(&format!("\n{:>29}^", "")), "{said}");
    let said = wrong("mercato_ordr");
    assert!(said.contains("'order'"), "{said}");
}

#[test]
fn each_command_has_a_manual_page_of_its_own_name() {
    fn page(path: &str) -> Result<String, Problem> {
        Manual { path: path.split_whitespace().map(str::to_owned).collect() }
            .perform(args::command())
    }
    fn all(command: &clap::Command, path: &str) {
        let said = page(path).unwrap();
        let name = format!("mercato {path}").trim().replace(' ', "-");
        assert!(said.contains(&format!(".TH {name} 1")), "{path}: {said}");
        assert!(said.contains("Examples:"), "{path}");
        for command in command.get_subcommands() {
            all(command, format!("{path} {}", command.get_name()).trim());
        }
    }
    all(&args::command(), "");
    let unknown = page("contracts extent").unwrap_err();
    assert_eq!(unknown.class, Class::Usage);
    assert!(unknown.what.contains("contracts extent"), "{}", unknown.what);
}
