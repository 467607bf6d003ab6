//! What goes wrong in a run, and until when: by chance, or at one chosen moment.

use std::fmt;
use std::str::FromStr;

use mercato_cluster_model::sides::Outcome;

use crate::engine::link::Quality;
use crate::engine::rng::Rng;

/// One fault at one chosen moment, in a run that is clean otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The cluster at a place dies right before its effect of that number.
    Crash(usize, u64),
    /// This befalls the message of that number.
    Message(u64, MessageFault),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash(at, effect) => write!(f, "crash:{at}:{effect}"),
            Self::Message(number, MessageFault::Lost) => write!(f, "lost:{number}"),
            Self::Message(number, MessageFault::Doubled) => write!(f, "doubled:{number}"),
            Self::Message(number, MessageFault::Late) => write!(f, "late:{number}"),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is no number"));
        match parts[..] {
            ["crash", at, effect] => {
                let at = at.parse().map_err(|_| format!("{at:?} is no place"))?;
                Ok(Self::Crash(at, number(effect)?))
            }
            ["lost", n] => Ok(Self::Message(number(n)?, MessageFault::Lost)),
            ["doubled", n] => Ok(Self::Message(number(n)?, MessageFault::Doubled)),
            ["late", n] => Ok(Self::Message(number(n)?, MessageFault::Late)),
            _ => Err(format!("{text:?}: crash:PLACE:EFFECT, or lost, doubled or late:MESSAGE")),
        }
    }
}

/// What happens to one message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFault {
    /// It is lost on the way.
    Lost,
    /// It arrives twice, each copy in its time.
    Doubled,
    /// It comes after many later ones.
    Late,
}

impl MessageFault {
    /// After how many ms each copy arrives.
    pub(crate) fn arrivals(self) -> Vec<u64> {
        match self {
            Self::Lost => Vec::new(),
            Self::Doubled => vec![10, 900],
            Self::Late => vec![7_000],
        }
    }
}

/// Two clocks that are each ten seconds off and jump so far are still within the skew that
/// is allowed.
const MOST_JUMP_MS: u64 = 5_000;

/// The faults of a run.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    /// Wall clocks are up to so many ms off, either way.
    pub(crate) skew_ms: u64,
    pub(crate) fault: Option<Fault>,
    bad: Quality,
    good: Quality,
    /// Crashes in a million effects.
    crashes: u32,
    /// Writes in a thousand that fail; whose answer is lost.
    writes: (u32, u32),
    /// Watches in a thousand that break when they have something to tell.
    relists: u32,
    /// Cuts of a link in a hundred seconds.
    pub(crate) cuts: u32,
    /// Wall clocks gain or lose up to so much of a million.
    pub(crate) drift_ppm: u64,
    /// Jumps of a wall clock, and full disks, of one cluster in ten thousand seconds.
    jumps: u32,
    full_disks: u32,
    /// Pods that get a new sandbox, of one cluster in a thousand seconds.
    sandboxes: u32,
    /// Links have the quality that the plan gives them.
    planned: bool,
    mixed: bool,
    /// Whether faults happen by chance at present.
    on: bool,
    rng: Rng,
}

impl Faults {
    /// Nothing goes wrong but for the fault.
    pub(crate) fn clean(seed: u64, fault: Option<Fault>) -> Self {
        let good = Quality::clean(5..=15);
        Self {
            skew_ms: 0,
            fault,
            bad: good.clone(),
            good,
            crashes: 0,
            writes: (0, 0),
            relists: 0,
            cuts: 0,
            drift_ppm: 0,
            jumps: 0,
            full_disks: 0,
            sandboxes: 0,
            planned: false,
            mixed: false,
            on: false,
            rng: Rng::new(seed, "faults"),
        }
    }

    /// Nothing goes wrong but what the plan says.
    pub(crate) fn planned(seed: u64) -> Self {
        Self { planned: true, drift_ppm: 50, ..Self::clean(seed, None) }
    }

    /// Each kind of fault is frequent, rare or absent, as the seed says.
    pub(crate) fn mixed(seed: u64) -> Self {
        let (mut rng, mut more) = (Rng::new(seed, "faults"), Rng::new(seed, "more faults"));
        let mut often = |most: u32| {
            let share = [0, 0, 1, 3, 10][usize::try_from(rng.within(0..=4)).unwrap_or(0)];
            most * share / 10
        };
        let slow = u64::from(often(400));
        let bad = Quality {
            latency_ms: 1 + slow..=20 + 2 * slow,
            lost: often(150),
            doubled: often(300),
            late: often(200),
            late_ms: 500..=20_000,
            damaged: 0,
        };
        Self {
            skew_ms: u64::from(often(10_000)),
            fault: None,
            good: Quality::clean(1..=20),
            bad,
            crashes: often(10_000),
            writes: (often(200), often(200)),
            relists: often(100),
            cuts: often(10),
            drift_ppm: more.within(0..=200),
            jumps: more.within(0..=30) as u32,
            full_disks: more.within(0..=30) as u32,
            sandboxes: more.within(0..=15) as u32,
            planned: false,
            mixed: true,
            on: true,
            rng,
        }
    }

    /// Whether faults come by chance at all.
    pub(crate) fn is_mixed(&self) -> bool {
        self.mixed
    }

    pub(crate) fn stop(&mut self) {
        self.on = false;
    }

    pub(crate) fn resume(&mut self) {
        self.on = true;
    }

    /// Whether faults come by chance now.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// How long after the faults something of them may be under way.
    pub(crate) fn settle_ms(&self) -> u64 {
        let Quality { latency_ms, late, late_ms, .. } = &self.bad;
        let late_ms = if *late > 0 { *late_ms.end() } else { 0 };
        if self.mixed { latency_ms.end() + late_ms + 1_000 } else { 0 }
    }

    /// Of all links; none: each has its own, by the plan.
    pub(crate) fn quality(&self) -> Option<&Quality> {
        match (self.planned, self.on) {
            (true, _) => None,
            (false, true) => Some(&self.bad),
            (false, false) => Some(&self.good),
        }
    }

    /// By how many ms a wall clock jumps in this second, if it does.
    pub(crate) fn clock_jump(&mut self) -> Option<i64> {
        let jumps = self.on && self.rng.within(0..=9_999) < u64::from(self.jumps);
        jumps.then(|| {
            self.rng.within(0..=2 * MOST_JUMP_MS).cast_signed() - MOST_JUMP_MS.cast_signed()
        })
    }

    /// For how many ms a disk is full from this second on, if it is.
    pub(crate) fn disk_full(&mut self) -> Option<u64> {
        let full = self.on && self.rng.within(0..=9_999) < u64::from(self.full_disks);
        full.then(|| self.rng.within(500..=20_000))
    }

    /// The lot that says which pod gets a new sandbox in this second, if one does.
    pub(crate) fn sandbox(&mut self) -> Option<usize> {
        let lost = self.on && self.rng.within(0..=999) < u64::from(self.sandboxes);
        lost.then(|| self.rng.within(0..=999) as usize)
    }

    /// Whether a daemon dies before this effect, and for how many ms it stays down.
    pub(crate) fn crash(&mut self, at: usize, effect: u64) -> Option<u64> {
        if self.fault == Some(Fault::Crash(at, effect)) {
            return Some(1_500);
        }
        let dies = self.on && self.rng.within(0..=999_999) < u64::from(self.crashes);
        dies.then(|| self.rng.within(200..=30_000))
    }

    /// What becomes of a write to an API server.
    pub(crate) fn write_outcome(&self, rng: &mut Rng) -> Outcome {
        let (fails, unheard) = if self.on { self.writes } else { (0, 0) };
        match () {
            () if rng.chance(fails) => Outcome::Fails,
            () if rng.chance(unheard) => Outcome::Unheard,
            () => Outcome::Answered,
        }
    }

    /// Whether a watch breaks now.
    pub(crate) fn relists(&mut self) -> bool {
        self.on && self.rng.chance(self.relists)
    }

    /// In how many ms from now a link is cut and mended, if it is.
    pub(crate) fn cut(&mut self) -> Option<(u64, u64)> {
        let cut = self.on && self.rng.within(0..=99) < u64::from(self.cuts);
        cut.then(|| {
            let after_ms = self.rng.within(0..=1_000);
            (after_ms, after_ms + self.rng.within(1_000..=60_000))
        })
    }
}
