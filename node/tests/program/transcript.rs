//! docs/transcript.md is what the program says: the scene is played, and what comes of it is
//! compared with the page. `MERCATO_RENEW=1` writes the page instead.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::kit::{Daemon, mercato, stderr, stdout};
use crate::market::wait_for_state;
use crate::mistakes::words;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/transcript.md");

/// Two clusters, and the page as far as it is made.
struct Scene {
    turin: Daemon,
    rome: Daemon,
    page: String,
}

#[test]
fn the_transcript_is_what_the_program_says() {
    let page = scene();
    if std::env::var_os("MERCATO_RENEW").is_some() {
        std::fs::write(PAGE, page).unwrap();
        return;
    }
    let written = std::fs::read_to_string(PAGE).unwrap();
    assert!(written.lines().all(|line| line.chars().count() <= 120));
    // From one command to the next, so that the first that differs is shown.
    let parts = |page: &str| page.split("```").map(stable).collect::<Vec<_>>();
    for (written, said) in parts(&written).iter().zip(parts(&page)) {
        assert_eq!(*written, said, "docs/transcript.md: {RENEW}\n{page}");
    }
    assert_eq!(stable(&written), stable(&page), "{RENEW}");
}

/// Plays it.
fn scene() -> String {
    let size = ["--simulated-cluster", "cpu=8,memory=32Gi,pods=110,gpu.h100=4"];
    let turin = Daemon::start_with("turin", &size);
    let rome = Daemon::start("rome", &[&turin.address()]);
    let mut scene = Scene { turin, rome, page: INTRODUCTION.to_owned() + "\n\n" };
    let id = scene.order();
    scene.counter_offer(&id);
    scene.refused_change(&id);
    scene.withdrawn_change(&id);
    scene.reclaim(&id);
    scene.end(&id);
    let Scene { turin, rome, page } = scene;
    [rome, turin].into_iter().for_each(Daemon::stop);
    page.trim_end().to_owned() + "\n"
}

impl Scene {
    fn prose(&mut self, text: &str) {
        write!(self.page, "{text}\n\n").unwrap();
    }

    fn turin(&mut self, line: &str) {
        self.page += &block("turin", &self.turin, line);
    }

    fn rome(&mut self, line: &str) {
        self.page += &block("rome", &self.rome, line);
    }

    fn order(&mut self) -> String {
        let price = "--price 'cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h'";
        self.turin(&format!("share set --cpu 50% --memory 50% --gpu h100=2 {price}"));
        self.rome.wait_for(&["browse", "-o", "json"], |all| all["suiting"] == 1);
        self.prose("## Rome looks around, and orders");
        self.rome("browse gpu.model=h100");
        self.rome("browse gpu.model=h100 --cpu 2 --memory 4Gi --gpu h100=1 --for 1h");
        self.prose(
            "Nothing is bought from a stranger. The first order stops, and shows whom it would \
             go to.",
        );
        let order = "order --cpu 2 --memory 4Gi --gpu h100=1 --for 1h --note 'training'";
        self.rome(order);
        self.prose(
            "Rome's owner asks Turin's for the fingerprint that `mercato status` shows there, \
             and compares the two.",
        );
        self.rome("peer trust turin --yes");
        self.rome(order);
        let first = |deals: &Value| deals[0]["id"].as_str().map(str::to_owned);
        let deals = self.rome.wait_for(&["contracts", "-o", "json"], |all| first(all).is_some());
        let id = first(&deals).unwrap();
        wait_for_state(&self.turin, &id, "review");
        id[..8].to_owned()
    }

    fn counter_offer(&mut self, id: &str) {
        self.prose("## Turin asks for more");
        self.prose(
            "Each request waits for Turin's owner, who names another price for the GPU alone.",
        );
        self.turin("requests");
        self.turin(&format!("requests accept {id} --price 'gpu.h100=2.80 EUR/h' --hold 8h"));
        wait_for_state(&self.rome, id, "offered");
        self.prose("The counter-offer waits for Rome. The status says so, with both commands.");
        self.rome("status");
        self.rome(&format!("order --offer {id}"));
        wait_for_state(&self.rome, id, "active");
        wait_for_state(&self.turin, id, "active");
        self.prose("Both have signed. Rome's cluster has one more node, which pods can run on.");
        self.rome("contracts");
    }

    fn refused_change(&mut self, id: &str) {
        self.prose("## A change that is refused");
        self.prose(
            "Rome wants two hours more. Turin's owner sees what changes and what it would cost, \
             and refuses.",
        );
        self.rome(&format!("contracts extend {id} --for 2h"));
        self.wait_for_change(true);
        self.turin("requests");
        self.turin(&format!("requests deny {id} --reason 'reserved for tonight'"));
        self.rome.wait_for_text(&["status"], |text| text.contains("refused the change"));
        self.rome("status");
    }

    fn withdrawn_change(&mut self, id: &str) {
        self.prose("## A change that is withdrawn");
        self.prose("Rome asks for one hour instead, and then does without. Turin need not answer.");
        self.rome(&format!("contracts extend {id} --for 1h"));
        self.wait_for_change(true);
        self.rome(&format!("contracts withdraw {id}"));
        self.wait_for_change(false);
        self.turin("requests");
    }

    fn reclaim(&mut self, id: &str) {
        self.prose("## Turin takes it back");
        self.prose(
            "The contract promises an hour's notice. Turin gives fifteen seconds, and owes a \
             credit for the rest.",
        );
        self.turin(&format!("reclaim {id} --notice 15s --yes"));
        wait_for_state(&self.rome, id, "reclaiming");
        self.rome("status");
        for daemon in [&self.rome, &self.turin] {
            wait_for_state(daemon, id, "closed");
            let statement = ["contracts", "statement", id, "-o", "json"];
            let is_credit = |row: &Value| row["ChargeCategory"] == "Credit";
            daemon.wait_for(&statement, |rows| {
                rows.as_array().is_some_and(|rows| rows.iter().any(is_credit))
            });
        }
    }

    fn end(&mut self, id: &str) {
        self.prose("## The end");
        self.prose("What both have signed for is billed, less the credit.");
        self.rome("contracts list --all");
        self.rome(&format!("contracts show {id}"));
        self.rome(&format!("contracts statement {id}"));
        self.rome("events");
        self.prose("Programs read the same with `-o json`: [what commands print](output.md).");
    }

    fn wait_for_change(&self, waits: bool) {
        let requests = ["requests", "-o", "json"];
        self.turin.wait_for(&requests, |all| all[0]["change"].is_object() == waits);
    }
}

/// A command on a cluster's machine, and what its owner sees at a terminal of 80 columns.
fn block(name: &str, daemon: &Daemon, line: &str) -> String {
    let mut command = mercato(daemon.path());
    command.env("COLUMNS", "80").args(words(line)).arg("--data-dir").arg(daemon.path());
    let output = command.output().unwrap();
    let said = stderr(&output) + &stdout(&output);
    let said = said.replace(&daemon.path().display().to_string(), "/var/lib/mercato");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{line}: {said}");
    format!("```console\n{}\n{said}```\n\n", typed(&format!("{name}$ mercato {line}")))
}

const RENEW: &str = "to write it anew: MERCATO_RENEW=1 cargo test --test program transcript";

const INTRODUCTION: &str = "\
# A trade, command by command

Turin has GPUs to spare, Rome needs one for an hour. There is an order, a counter-offer, a change that is
refused, one that is withdrawn, and Turin takes the capacity back before the hour is over. A test plays this
scene with two daemons and compares what they say with this page; only ids, times, ports and sums by the second
differ.

Try it on one machine. The clusters are simulated, and so are their GPUs; all else is real. Each daemon runs in
a terminal of its own:

```console
$ mercato run --name turin --data-dir turin \\
    --simulated-cluster cpu=8,memory=32Gi,gpu.h100=4
$ mercato run --name rome --data-dir rome --simulated-cluster cpu=8,memory=16Gi
```

They find each other on the local network, or by `--peer HOST:PORT`. Below, `turin$` and `rome$` are their
owners; on one machine each command ends with `--data-dir turin` or `--data-dir rome`.

## Turin shares";

/// A command line as people write it on a page: broken before an option.
fn typed(line: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in line.split(" --") {
        let part = if lines.is_empty() { part.to_owned() } else { format!("--{part}") };
        match lines.last_mut() {
            Some(last) if last.len() + part.len() < 78 => *last += &format!(" {part}"),
            Some(last) => {
                *last += " \\";
                lines.push(format!("    {part}"));
            }
            None => lines.push(part),
        }
    }
    lines.join("\n")
}

/// A page without what differs from one run to the next: times, ids, keys, ports, sums by the
/// second, and how lines are broken because of them.
fn stable(page: &str) -> String {
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    let mut word = |word: &str| {
        let core = word.trim_matches(|c: char| ":,;()\"".contains(c));
        let kept = match core {
            _ if is_moment(core) => "MOMENT".to_owned(),
            _ if core.starts_with("/ip4/127") || core.starts_with("http://127") => {
                "ADDRESS".to_owned()
            }
            _ if core.len() == 4 && is_hex(core) => "DIGITS".to_owned(),
            _ if core.len() >= 8 && is_hex(core) => {
                let next = ids.len();
                format!("ID{}", ids.entry(core[..8].to_owned()).or_insert(next))
            }
            _ if is_duration(core) => "DURATION".to_owned(),
            // A sum by the second.
            _ if core.split_once('.').is_some_and(|(whole, rest)| {
                rest.len() > 2 && [whole, rest].iter().all(|part| is_number(part))
            }) =>
            {
                "SUM".to_owned()
            }
            _ => return word.to_owned(),
        };
        word.replace(core, &kept)
    };
    page.split_whitespace().map(&mut word).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_may_be_hexadecimal_is_no_duration() {
    assert_eq!(
        stable("0d5d 119d a367 12d345d6 7d3h 59m59s 14s"),
        "DIGITS DIGITS DIGITS ID0 DURATION DURATION DURATION"
    );
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A date, or the time of a day.
fn is_moment(text: &str) -> bool {
    let of = |by: char| text.split(by).map(|part| if is_number(part) { part.len() } else { 0 });
    of('-').eq([4, 2, 2]) || of(':').eq([2, 2, 2])
}

/// One of what is left of a time (`3h59m`, `14s`), or of a round trip.
fn is_duration(text: &str) -> bool {
    if let Some(ms) = text.strip_suffix("ms") {
        return ms.split('.').all(is_number);
    }
    let units = text.chars().filter(|c| "wdhms".contains(*c)).count();
    let parts = text.split_inclusive(|c| "wdhms".contains(c));
    let parts: Vec<&str> = parts.collect();
    let whole = parts.iter().all(|part| is_number(&part[..part.len() - 1]));
    whole && parts.len() == units && (units == 2 || units == 1 && text.ends_with('s'))
}
