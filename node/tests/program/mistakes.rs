//! What goes wrong is said: what failed, why, and what to do, with the exit code of its kind.

use std::process::Output;

use tempfile::TempDir;

use crate::kit::{Daemon, done, mercato, run, stderr};
use crate::market::{buyer, order, share, wait_for_state};

/// What was typed, the exit code, what is said, and what to do about it.
type Mistake<'a> = (&'a str, i32, &'a str, &'a str);

const HELP: &str = "try '--help'";
const NOT_NEGATIVE: &str = "expected a number that is not negative";
const NO_DAEMON: &str = "start one: mercato run";
const LABEL: &str = "expected a namespace's name";

/// Seen before anything is asked, read or bound.
const TYPED: [Mistake; 34] = [
    ("order --cpu -1 --memory 1Gi --for 1h", 2, NOT_NEGATIVE, "for example 8 or 500m"),
    ("order --cpu 8Gi --memory 1Gi --for 1h", 2, "  8Gi\n   ^", HELP),
    ("order --cpu 1 --memory -1Gi --for 1h", 2, NOT_NEGATIVE, HELP),
    ("order --cpu 1 --memory 1Gi --gpu h100=-1 --for 1h", 2, NOT_NEGATIVE, "for example h100=2"),
    ("order --cpu 1 --memory 1Gi --gpu 1 --for 1h", 2, "expected '='", "for example h100=2"),
    ("order --cpu 1 --memory 1Gi --pods -1 --for 1h", 2, NOT_NEGATIVE, HELP),
    ("order --cpu 1 --memory 1Gi --for 0", 2, "expected a unit of time", "for example 1h30m"),
    ("order --cpu 1 --memory 1Gi --for 0s", 2, "at least one", "for example 1h30m"),
    ("order --cpu 1 --memory 1Gi --for -1h", 2, NOT_NEGATIVE, "for example 1h30m"),
    ("order --cpu 1 --memory 1Gi", 2, "--for <DURATION>", HELP),
    ("order --cpu 1 --memory 1Gi --for 1h --max-price '-1 EUR/h'", 2, "expected", "3 EUR/h"),
    ("order --cpu 1 --memory 1Gi --for 1h --max-price '1 EUR'", 2, "expected '/'", "3 EUR/h"),
    ("order --cpu 1 --memory 1Gi --for 1h --namespace Bad_Name", 2, LABEL, "for example shop"),
    ("order --offer 3f2 --cpu 1", 2, "cannot be used with", HELP),
    ("contracts resize 3f2", 2, "required arguments", HELP),
    ("contracts resize 3f2 --cpu -4", 2, NOT_NEGATIVE, HELP),
    ("contracts extend 3f2 --for -1h", 2, NOT_NEGATIVE, "for example 1h30m"),
    ("reclaim 3f2 --notice -1m", 2, NOT_NEGATIVE, "for example 1h30m"),
    ("requests deny 3f2", 2, "--reason <TEXT>", HELP),
    ("requests accept 3f2 --hold 0s", 2, "at least one", "for example 1h30m"),
    ("share set --cpu 130%", 2, "0 to 100 percent", "for example 30%"),
    ("share set --price '-1 EUR/h'", 2, "expected", "for example cpu=0.02 EUR/h"),
    ("share set --price 'cpu=0 EUR/h'", 2, "expected more than zero, or the word free", HELP),
    ("browse gpu.foo=1", 2, "expected gpu.model", "for example"),
    ("browse -o xml", 2, "table, wide, json, yaml, csv, name", HELP),
    ("offload Bad_Name", 2, LABEL, "for example shop"),
    ("unoffload ''", 2, LABEL, "for example shop"),
    ("federation create 'Bad Name'", 2, "1 to 32 of a-z", HELP),
    ("run --share 130", 2, "0 to 100 percent", "for example 30%"),
    ("run --simulated-cluster cpu=4", 2, "pods need CPU and memory", "for example"),
    ("completion tcsh", 2, "bash, elvish, fish, powershell, zsh", HELP),
    ("orders", 2, "unrecognized", "'order'"),
    ("status --nonsense", 2, "unexpected argument", HELP),
    ("status --timeout 0", 2, "expected a unit of time", "for example 1h30m"),
];

/// Of files, ports and daemons that are not there.
const ABSENT: [Mistake; 10] = [
    ("status --data-dir data", 5, "no daemon answers at", NO_DAEMON),
    ("browse --socket /nonexistent", 5, "no daemon answers at /nonexistent", "--socket PATH"),
    (
        "run --data-dir none --config /nonexistent",
        1,
        "cannot be read: No such file",
        "mercato run needs none",
    ),
    (
        "run --data-dir none --config /",
        1,
        "cannot be read: Is a directory",
        "mercato run needs none",
    ),
    ("run --no-lan --no-kubernetes --data-dir /dev/null", 1, "cannot be used", "--data-dir DIR"),
    (
        "run --no-lan --no-kubernetes --data-dir data --listen 203.0.113.1:7474",
        1,
        "cannot listen on /ip4/203.0.113.1/udp/7474/quic-v1: Cannot assign",
        "--listen IP:PORT",
    ),
    (
        "import /nonexistent --data-dir none",
        1,
        "cannot be read: No such file",
        "that mercato export has written",
    ),
    ("import /dev/null --data-dir none", 1, "is not imported", "that mercato export has written"),
    ("export state --data-dir none", 1, "nothing is exported", "--data-dir DIR"),
    ("demo --kubeconfig one", 2, "a demo takes two clusters", "mercato demo --kubeconfig A"),
];

/// The words of a command line: what stands between quotes is one.
pub(crate) fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(n, part)| match n % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    words.collect()
}

fn judge((line, code, what, todo): Mistake, output: &Output) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{line}: {said}");
    assert!(said.starts_with("error: "), "{line}: {said}");
    assert!(said.contains(what) && said.contains(todo), "{line}: {said}");
    assert!(!said.contains("panicked"), "{line}: {said}");
    assert!(output.stdout.is_empty(), "{line}: what went wrong is no result");
}

#[test]
fn what_is_typed_wrongly_is_pointed_at() {
    let home = TempDir::new().unwrap();
    for mistake in TYPED {
        judge(mistake, &run(home.path(), &words(mistake.0)));
    }
    assert!(std::fs::read_dir(home.path()).unwrap().next().is_none(), "nothing was made");
}

#[test]
fn what_is_not_there_is_named() {
    let home = TempDir::new().unwrap();
    for mistake in ABSENT {
        judge(mistake, &mercato(home.path()).args(words(mistake.0)).output().unwrap());
    }
    assert!(!home.path().join("none").exists(), "nothing was made");
}

#[test]
fn mistakes_fit_a_terminal() {
    let home = TempDir::new().unwrap();
    for (line, ..) in TYPED.into_iter().chain(ABSENT) {
        let output = mercato(home.path()).env("COLUMNS", "80").args(words(line)).output().unwrap();
        let said = stderr(&output);
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{line}: {said}");
    }
}

#[test]
fn what_cannot_be_done_says_why() {
    let turin = Daemon::start("turin", &[]);
    share(&turin, "cpu=0.60 EUR/h", "auto");
    let rome = buyer(&[(&turin, "turin")]);
    let id = order(&rome, &[]);
    wait_for_state(&rome, &id, "active");
    wait_for_state(&turin, &id, "active");
    let id = &id[..8];
    let see = format!("see it: mercato contracts show {id}");
    let sold = format!("{id} was sold to rome: only its consumer can change it");
    let bought =
        format!("{id} is not a running contract that this cluster sold: bought from turin, active");
    let settled = format!("{id} is not a request or change that waits for your answer: sold to");
    let (see, sold, bought) = (see.as_str(), sold.as_str(), bought.as_str());
    for (daemon, line, code, what, todo) in [
        (&rome, "contracts show zzz", 3, "no order or contract is called", "list --all"),
        (&rome, "contracts statement zzz", 3, "no order or contract is called", "list --all"),
        (&rome, "offer show nobody", 3, "no cluster is called", "mercato peers"),
        (&rome, "order --offer zzz", 3, "no offer is called", "mercato contracts"),
        (&rome, "order --cpu 1 --memory 1Gi --for 1h --from nobody", 3, "no cluster", "peers"),
        (&rome, "order --cpu 100 --memory 1Gi --for 1h", 3, "does not match", "nearest: turin"),
        (&rome, "rfq --cpu 1 --memory 1Gi --for 1s", 3, "does not match", "nearest: turin"),
        (&rome, "browse gpu.model=h100", 3, "does not match", "add --explain"),
        (&rome, "order --cpu 1 --for 1h", 2, "pods need processors and memory", "--memory 32Gi"),
        (&rome, "peer add nowhere", 2, "a port is missing", "write HOST:PORT"),
        (&rome, "peer remove nowhere:1", 3, "is on no list", "mercato peers"),
        (&rome, "peer ping 127.0.0.1:1", 1, "does not answer", "a daemon runs there"),
        (&rome, "peer trust nobody", 3, "no cluster is called", "mercato peers"),
        (&rome, "contracts resize ID --cpu 0", 2, "pods need processors", "how much of each"),
        (&rome, "contracts resize ID --cpu 64", 4, "not enough is left", "refused the change"),
        (&rome, "contracts withdraw ID", 3, "no change", see),
        (&rome, "reclaim ID", 3, bought, see),
        (&turin, "reclaim ID", 2, "this is not a terminal", "add --yes"),
        (&turin, "contracts extend ID --for 1h", 2, sold, "mercato reclaim"),
        (&turin, "requests accept ID", 3, &settled, see),
        (&turin, "requests deny ID --reason no", 3, &settled, see),
        (&turin, "share set --allow nobody", 3, "no cluster is called", "mercato peers"),
        (&turin, "status -o csv", 2, "only offers and statements", "-o json"),
        (&turin, "federation members", 3, "has joined no federation", "federation join TOKEN"),
        (&turin, "federation join mercato-join-x", 2, "no join token", "federation token"),
        (&turin, "unoffload shop", 2, "this is not a terminal", "add --yes"),
        (&turin, "export /nonexistent/x", 1, "cannot be written: No such file", "that exists"),
        (&turin, "export log", 1, "is there already, and stays as it is", "another name"),
    ] {
        let line = line.replace("ID", id);
        let output = daemon.ask(&words(&line));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains("error: ") && said.contains(what), "{line}: {said}");
        assert!(said.contains(todo), "{line}: {said}");
    }
    done(&rome, &["contracts", "cancel", id, "--yes"]);
    wait_for_state(&rome, id, "closed");
    let over = format!("{id} is not open or running: bought from turin, closed");
    for line in ["contracts cancel ID", "contracts extend ID --for 1h"] {
        let line = line.replace("ID", id);
        let said = stderr(&rome.ask(&words(&line)));
        assert!(said.contains("closed") && said.contains(see), "{line}: {said}");
    }
    assert!(stderr(&rome.ask(&["contracts", "cancel", id])).contains(&over));
    [rome, turin].into_iter().for_each(Daemon::stop);
}

#[test]
fn a_second_daemon_is_told_to_have_a_folder_of_its_own() {
    let turin = Daemon::start("turin", &[]);
    let folder = turin.path().to_str().unwrap().to_owned();
    let second = run(turin.path(), &["run", "--no-lan", "--no-kubernetes", "--data-dir", &folder]);
    judge(("run", 1, "is in use by another daemon", "--data-dir DIR"), &second);
    turin.stop();
}

/// As on a disk without room.
#[test]
fn an_export_without_room_leaves_nothing() {
    let rome = Daemon::start("rome", &[]);
    let (home, file) = (TempDir::new().unwrap(), "state");
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
    limited.args([env!("CARGO_BIN_EXE_mercato"), "export", file, "--data-dir"]).arg(rome.path());
    let output = limited.current_dir(home.path()).output().unwrap();
    judge(("export", 1, "state cannot be written: File too large", "has room"), &output);
    assert!(std::fs::read_dir(home.path()).unwrap().next().is_none());
    rome.stop();
}
