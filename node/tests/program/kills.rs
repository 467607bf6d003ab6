//! Either side of a trade is killed at each step of it, on real sockets, and started again:
//! what was accepted becomes a lease, what was cancelled ends, soon after both are connected.
//!
//! Nothing in the program says where to die. A daemon logs each step of a deal twice, before it
//! is on disk (`a step`) and once it may be seen (`a deal goes on`): it is killed when it has
//! written that line.

mod party;
mod steps;

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::process::Child;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;
use tempfile::TempDir;

use self::party::Party;
use self::steps::{
    Buyer, Cancel, Counter, End, Extension, Order, Review, STEPS, Seller, Side, Step, Trade,
    Withdrawal,
};
use crate::kit::Daemon;

/// From the connection after the start to the end of what was begun.
const SOON: Duration = Duration::from_secs(3);
/// An order waits so long for its first answer, whatever happens to either side.
const ORDER: Duration = Duration::from_secs(10);
/// A test that hangs ends.
const DEADLINE: Duration = Duration::from_secs(60);
/// The longest from the line in the log to the kill.
const DELAY_MS: u64 = 15;

/// A deal's step: the line that says it before it is on disk, or the one after.
fn step(line: &Value, id: Option<&str>, state: &str, written: bool) -> bool {
    let message = if written { "a deal goes on" } else { "a step" };
    let deal = deal(line).unwrap_or_default();
    line["message"] == message
        && line["state"] == state
        && id.is_none_or(|id| !deal.is_empty() && id.starts_with(deal))
}

/// Which deal a line is of: its own word, or its span's.
fn deal(line: &Value) -> Option<&str> {
    line["deal"].as_str().or(line["spans"][0]["id"].as_str())
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
        parties.iter_mut().for_each(|party| party.start(data_dir()));
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
        (deal(&line).unwrap().to_owned(), ordering)
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
        let (begun, took) = self.settle(trade, &id, (back, connected));
        assert!(
            took < SOON,
            "{trade:?} {victim:?} {state:?} {written} {delay_ms}: {took:?}\n{}",
            self.story()
        );
        self.clean_up(&id);
        Outcome { begun, connected, took }
    }

    /// Says what could not be said, and waits until it is done; whether there was anything.
    fn settle(
        &mut self,
        trade: Trade,
        id: &str,
        (mut back, after): (Instant, Duration),
    ) -> (bool, Duration) {
        let began = Instant::now();
        loop {
            let [ours, theirs] =
                [Buyer, Seller].map(|side| self.parties[side as usize].contract(id));
            if ours.is_null() {
                assert!(theirs["state"] != "active", "sold to nobody: {theirs:#}");
                return (false, back.elapsed());
            }
            // The machine was so busy that nobody was there to answer.
            if after + SOON >= ORDER && ours["state"] == "terminated" && theirs.is_null() {
                return (false, Duration::ZERO);
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
                return (true, back.elapsed());
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
                // The time of the daemons is meant, not that of a person who speaks late.
                back = Instant::now();
            }
            if trade == Counter && states.0 == Some("offered") {
                self.buyer().done(&["order", "--offer", id]);
                back = Instant::now();
            }
            let late = began.elapsed() >= DEADLINE;
            assert!(!late, "{trade:?} of {id} stays {states:?}\n{}", self.story());
        }
    }

    fn story(&mut self) -> String {
        self.parties.iter_mut().map(Party::story).collect()
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

/// In memory, where there is such a place: a kill takes nothing of it, and the disk of a busy
/// machine takes seconds for one of the dozen writes of a trade.
fn data_dir() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
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

/// The steps in an order of chance, each as often as the others.
struct Plan {
    rng: SmallRng,
    left: Vec<Step>,
}

impl Plan {
    fn new() -> Self {
        let seed = std::env::var("MERCATO_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| rand::random_range(0..10_000));
        println!("again: MERCATO_TEST_SEED={seed}");
        Self { rng: SmallRng::seed_from_u64(seed), left: Vec::new() }
    }

    /// A step, whether its line is the one behind the disk, and how long after it to kill.
    fn next(&mut self) -> (Step, bool, u64) {
        if self.left.is_empty() {
            self.left = STEPS.to_vec();
            self.left.shuffle(&mut self.rng);
        }
        let step = self.left.pop().unwrap();
        (step, self.rng.random(), self.rng.random_range(0..=DELAY_MS))
    }
}

#[test]
fn whoever_is_killed_at_any_step_of_a_trade_keeps_its_word() {
    let full = std::env::var("MERCATO_TEST_LEVEL").is_ok_and(|level| level == "full");
    let kills = if full { 200 } else { 10 };
    let (mut pair, mut plan) = (Pair::open(), Plan::new());
    let (mut all, mut connected) = (Vec::new(), Vec::new());
    let mut hit: BTreeMap<String, (usize, Vec<Duration>)> = BTreeMap::new();
    for _ in 0..kills {
        let (step, written, delay_ms) = plan.next();
        let outcome = pair.kill(step, written, delay_ms);
        let (trade, victim, state) = step;
        let at = format!("{trade:?} {victim:?} {}", state.unwrap_or("before the last word"));
        let (times, took) = hit.entry(at).or_default();
        *times += 1;
        if outcome.begun {
            took.push(outcome.took);
            all.push(outcome.took);
        }
        connected.push(outcome.connected);
    }
    for (at, (times, took)) in &mut hit {
        println!("{at}: {times} kills, {} of something begun: {}", took.len(), spread(took));
    }
    let whole = hit.len() == STEPS.len().min(kills);
    assert!(whole && hit.values().all(|(_, took)| !took.is_empty() || !full), "{hit:?}");
    println!("from start to connection: {}", spread(&mut connected));
    println!("from there to the end: {}", spread(&mut all));
    let [rome, turin] = pair.parties.map(|party| party.running.unwrap().daemon);
    [rome, turin].into_iter().for_each(Daemon::stop);
}

fn spread(all: &mut [Duration]) -> String {
    all.sort();
    let at = |percent: usize| all.get(all.len().saturating_sub(1) * percent / 100).copied();
    let [median, p99, most] = [50, 99, 100].map(|percent| at(percent).unwrap_or_default());
    format!("median {median:.0?}, 99 % {p99:.0?}, most {most:.0?}")
}

/// For a day the seller has something to tell of each lease that is over, and begins with it as
/// soon as it is back. The buyer does not listen to that any more; to what is new it does.
#[test]
fn leases_of_before_keep_no_word_waiting() {
    let mut pair = Pair::open();
    for _ in 0..20 {
        let (id, mut ordering) = pair.begin(Cancel);
        pair.clean_up(&id);
        ordering.wait().unwrap();
    }
    pair.kill((Order, Seller, Some("Agreed")), true, 0);
    let [rome, turin] = pair.parties.map(|party| party.running.unwrap().daemon);
    [rome, turin].into_iter().for_each(Daemon::stop);
}
