//! Either side of a trade is killed at each step of it, on real sockets, and started again:
//! what was accepted becomes a lease, what was cancelled ends, soon after both are connected.
//!
//! Nothing in the program says where to die. A daemon logs each step of a deal twice, before it
//! is on disk (`deal`) and once it may be seen (`a deal goes on`): it is killed when it has
//! written that line.

mod steps;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use self::steps::{
    Buyer, Cancel, Counter, End, Extension, Order, Review, STEPS, Seller, Side, Step, Trade,
    Withdrawal,
};
use crate::kit::{Daemon, stderr};

/// From the connection after the start to the end of what was begun, on a machine that does
/// nothing else,
const SOON: Duration = Duration::from_secs(3);
/// and on one that may.
const SOON_ENOUGH: Duration = Duration::from_secs(10);
/// A test that hangs ends.
const DEADLINE: Duration = Duration::from_secs(60);
/// From the line in the log to the kill.
const DELAYS_MS: [u64; 4] = [0, 2, 6, 15];

/// A daemon and what it has logged since its start.
struct Party {
    name: &'static str,
    listen: String,
    peer: String,
    running: Option<Running>,
}

struct Running {
    daemon: Daemon,
    log: File,
    rest: String,
    lines: Vec<Value>,
}

impl Party {
    fn start(&mut self, dir: TempDir) {
        let daemon = Daemon::start_at(dir, self.name, &self.listen, &self.peer);
        let log = File::open(daemon.file("log")).unwrap();
        self.running = Some(Running { daemon, log, rest: String::new(), lines: Vec::new() });
    }

    fn kill(&mut self) -> TempDir {
        self.running.take().unwrap().daemon.kill()
    }

    fn daemon(&self) -> &Daemon {
        &self.running.as_ref().unwrap().daemon
    }

    /// What it has logged since its start, or since it was cleared.
    fn lines(&mut self) -> &mut Vec<Value> {
        let running = self.running.as_mut().unwrap();
        running.log.read_to_string(&mut running.rest).unwrap();
        let whole = running.rest.rfind('\n').map_or(0, |end| end + 1);
        let rest = running.rest.split_off(whole);
        let text = std::mem::replace(&mut running.rest, rest);
        running.lines.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
        &mut running.lines
    }

    /// Waits until it has logged that.
    fn logs(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(line) = self.lines().iter().find(|line| is_it(line)) {
                return line.clone();
            }
            let late = Instant::now() >= deadline;
            assert!(
                !late,
                "{} never logs {what}: {:#?}",
                self.name,
                self.running.as_ref().unwrap().lines
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn done(&self, args: &[&str]) {
        let output = self.daemon().ask(args);
        assert!(output.status.success(), "{}: {args:?}: {}", self.name, stderr(&output));
    }

    /// The contract as this side has it; nothing if it does not know it.
    fn contract(&self, id: &str) -> Value {
        let output = self.daemon().ask(&["contracts", "show", id, "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }
}

/// A deal's step: the line that says it before it is on disk, or the one after.
fn step(line: &Value, id: Option<&str>, state: &str, written: bool) -> bool {
    let message = if written { "a deal goes on" } else { "deal" };
    let deal = line["deal"].as_str().or(line["id"].as_str()).unwrap_or_default();
    line["message"] == message
        && line["state"] == state
        && id.is_none_or(|id| !deal.is_empty() && id.starts_with(deal))
}

/// How one kill went.
struct Outcome {
    /// Whether there was anything to come true.
    begun: bool,
    connected: Duration,
    took: Duration,
}

struct Pair {
    parties: [Party; 2],
    approve: &'static str,
}

impl Pair {
    fn open() -> Self {
        let [one, other] = [free_port(), free_port()];
        let party = |name, own: u16, peer: u16| {
            let peer = format!("/ip4/127.0.0.1/udp/{peer}/quic-v1");
            Party { name, listen: format!("127.0.0.1:{own}"), peer, running: None }
        };
        let mut parties = [party("rome", one, other), party("turin", other, one)];
        parties.iter_mut().for_each(|party| party.start(TempDir::new().unwrap()));
        let mut pair = Self { parties, approve: "" };
        pair.approve("auto");
        let offers = |all: &Value| all["offers"].as_array().is_some_and(|all| all.len() == 1);
        pair.buyer().daemon().wait_for(&["browse", "-o", "json"], offers);
        pair.buyer().done(&["peer", "trust", "turin", "--yes"]);
        pair
    }

    fn buyer(&mut self) -> &mut Party {
        &mut self.parties[0]
    }

    fn seller(&mut self) -> &mut Party {
        &mut self.parties[1]
    }

    fn approve(&mut self, approve: &'static str) {
        if self.approve != approve {
            let set = ["share", "set", "--cpu", "50%", "--memory", "50%", "--yes"];
            let rest = ["--price", "cpu=0.60 EUR/h", "--approve", approve];
            self.seller().done(&[&set[..], &rest].concat());
            self.approve = approve;
        }
    }

    /// Begins an order, and says which it is.
    fn order(&mut self) -> (String, Child) {
        let order = ["order", "--cpu", "1", "--memory", "1Gi", "--pods", "5", "--for", "1h"];
        let ordering = self.buyer().daemon().begin(&order);
        let line = self.buyer().logs("an order", |line| step(line, None, "Requested", false));
        (line["deal"].as_str().unwrap().to_owned(), ordering)
    }

    fn wait_for(&mut self, side: Side, id: &str, state: &str) {
        let party = &mut self.parties[side as usize];
        party.logs(&format!("{state} of {id}"), |line| step(line, Some(id), state, true));
    }

    /// Begins what is under way, up to the word before the last.
    fn begin(&mut self, trade: Trade) -> (String, Child) {
        self.approve(if matches!(trade, Review | Counter | Withdrawal) { "ask" } else { "auto" });
        self.parties.iter_mut().for_each(|party| party.lines().clear());
        let (id, ordering) = self.order();
        match trade {
            Order => {}
            Review | Counter | Withdrawal => self.wait_for(Seller, &id, "Review"),
            Extension | Cancel | End => {
                [Buyer, Seller].into_iter().for_each(|side| self.wait_for(side, &id, "Active"));
            }
        }
        (id, ordering)
    }

    /// The last word of it, which accepts or ends.
    fn last_word(&mut self, trade: Trade, id: &str) -> Option<(Side, Vec<String>)> {
        let (side, words): (_, &[&str]) = match trade {
            Order => return None,
            Review => (Seller, &["requests", "accept", id]),
            Counter => (Seller, &["requests", "accept", id, "--price", "cpu=0.70 EUR/h"]),
            Extension => (Buyer, &["contracts", "extend", id, "--for", "1h"]),
            Withdrawal | Cancel => (Buyer, &["contracts", "cancel", id, "--yes"]),
            End => (Seller, &["contracts", "cancel", id, "--yes"]),
        };
        Some((side, words.iter().map(|word| (*word).to_owned()).collect()))
    }

    fn say(&mut self, trade: Trade, id: &str) -> Option<Child> {
        let (side, words) = self.last_word(trade, id)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Some(self.parties[side as usize].daemon().begin(&words))
    }

    /// Kills a side at a step, starts it again, and waits for the end of what was begun.
    fn kill(&mut self, (trade, victim, state): Step, written: bool, delay_ms: u64) -> Outcome {
        let early =
            matches!(state, Some("Review")) || trade == Order && matches!(state, Some("Requested"));
        let (id, mut ordering) = self.begin(trade);
        let mut said = None;
        if state.is_some() && !early && trade != Order {
            said = self.say(trade, &id);
        }
        if trade == Counter && matches!(state, Some("Agreed" | "Pending" | "Active")) {
            self.wait_for(Buyer, &id, "Offered");
            self.buyer().done(&["order", "--offer", &id]);
        }
        match state {
            None => {}
            // A change of a lease is not a step of the deal: the time alone tells.
            Some("asked") => std::thread::sleep(Duration::from_millis(20)),
            Some(state) => {
                let party = &mut self.parties[victim as usize];
                party.logs(state, |line| step(line, Some(&id), state, written));
            }
        }
        std::thread::sleep(Duration::from_millis(delay_ms));
        let dir = self.parties[victim as usize].kill();
        if state.is_none() {
            let mut said = self.say(trade, &id).unwrap();
            assert!(said.wait().unwrap().success(), "{trade:?}, with the other side dead");
        }
        for child in said.iter_mut().chain([&mut ordering]) {
            // It waits for what will not come, or its daemon has died.
            let _ = child.kill();
            child.wait().unwrap();
        }
        let began = Instant::now();
        self.parties[victim as usize].start(dir);
        let party = &mut self.parties[victim as usize];
        party.logs("a connection", |line| line["message"] == "connected");
        let (connected, back) = (began.elapsed(), Instant::now());
        let begun = self.settle(trade, &id, back);
        let took = back.elapsed();
        let most = if is_full() { SOON } else { SOON_ENOUGH };
        assert!(took < most, "{trade:?} {victim:?} {state:?} {written} {delay_ms}: {took:?}");
        self.clean_up(&id);
        Outcome { begun, connected, took }
    }

    /// Says what could not be said, and waits until it is done; whether there was anything.
    fn settle(&mut self, trade: Trade, id: &str, back: Instant) -> bool {
        loop {
            let [ours, theirs] =
                [Buyer, Seller].map(|side| self.parties[side as usize].contract(id));
            if ours.is_null() {
                assert!(theirs["state"] != "active", "sold to nobody: {theirs:#}");
                return false;
            }
            let both = |is: &dyn Fn(&Value) -> bool| is(&ours) && is(&theirs);
            let states = (ours["state"].as_str(), theirs["state"].as_str());
            let done = match trade {
                Order | Review | Counter => both(&|it| it["state"] == "active"),
                Extension => {
                    ours["terms"]["termS"] == theirs["terms"]["termS"]
                        && both(&|it| it["change"].is_null())
                }
                Withdrawal => both(&|it| it["state"] == "terminated"),
                Cancel | End => both(&|it| it["state"] == "closed"),
            };
            if done {
                return true;
            }
            // Whoever was to speak may have died before.
            let unsaid = matches!(
                (trade, states),
                (Review | Counter, (_, Some("review")))
                    | (Withdrawal, (Some("requested" | "review"), _))
                    | (Cancel | End, (Some("active"), Some("active")))
            );
            if unsaid && let Some(mut said) = self.say(trade, id) {
                said.wait().unwrap();
            }
            if trade == Counter && states.0 == Some("offered") {
                self.buyer().done(&["order", "--offer", id]);
            }
            assert!(back.elapsed() < DEADLINE, "{trade:?} of {id} stays {states:?}");
        }
    }

    fn clean_up(&mut self, id: &str) {
        let over = |contract: &Value| {
            let state = contract["state"].as_str().unwrap_or("closed");
            matches!(state, "closed" | "terminated")
        };
        if !over(&self.buyer().contract(id)) {
            self.buyer().done(&["contracts", "cancel", id, "--yes"]);
        }
        let deadline = Instant::now() + DEADLINE;
        while !self.parties.iter().all(|party| over(&party.contract(id))) {
            assert!(Instant::now() < deadline, "{id} does not end");
        }
    }
}

fn is_full() -> bool {
    std::env::var("MERCATO_TEST_LEVEL").is_ok_and(|level| level == "full")
}

fn free_port() -> u16 {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

#[test]
fn whoever_is_killed_at_any_step_of_a_trade_keeps_its_word() {
    let full = is_full();
    // Other steps each time, all of them in ten kills more than there are steps.
    let (kills, stride) = if full { (200, 1) } else { (10, 7) };
    let mut pair = Pair::open();
    let (mut took, mut connected, mut hit) = (Vec::new(), Vec::new(), BTreeMap::new());
    for n in 0..kills {
        let step = STEPS[n * stride % STEPS.len()];
        let round = n * stride / STEPS.len();
        let written = (n + round).is_multiple_of(2);
        let outcome = pair.kill(step, written, DELAYS_MS[(n + round / 2) % DELAYS_MS.len()]);
        let (trade, victim, state) = step;
        let at = format!("{trade:?} {victim:?} {}", state.unwrap_or("before the last word"));
        let count: &mut (usize, usize) = hit.entry(at).or_default();
        count.0 += 1;
        count.1 += usize::from(outcome.begun);
        if outcome.begun {
            took.push(outcome.took);
        }
        connected.push(outcome.connected);
    }
    for (at, (kills, begun)) in &hit {
        println!("{at}: {kills} kills, {begun} of something begun");
    }
    let whole = hit.len() == STEPS.len().min(kills);
    assert!(whole && hit.values().all(|(_, begun)| *begun > 0 || !full), "{hit:?}");
    for (what, all) in [("from start to connection", connected), ("from there to the end", took)] {
        let mut all = all;
        all.sort();
        let at = |share: usize| all[(all.len() - 1) * share / 100];
        println!("{what}: median {:.0?}, 90 % {:.0?}, most {:.0?}", at(50), at(90), at(100));
    }
    let [rome, turin] = pair.parties.map(|party| party.running.unwrap().daemon);
    [rome, turin].into_iter().for_each(Daemon::stop);
}
