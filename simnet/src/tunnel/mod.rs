//! Real sessions of the tunnel over bad links, by seed: three gateways with three leases, while
//! datagrams are lost, doubled, damaged, late, too large and said again from elsewhere, while
//! gateways move and begin anew, and while clocks jump. Then all of that stops, and packets flow
//! again within [`HEALING_MS`].
//!
//! It runs on the agents' engine: agenda, alarms, clocks, rng, the quality of links, the trace. What
//! only a datagram sees of a link is in `link`.

mod bug;
mod gateway;
mod link;
mod packet;
mod world;

use std::fmt;

use mercato_session::limits;

pub use self::bug::TunnelBug;
use self::gateway::{GATEWAYS, LEASES};
use self::world::TunnelWorld;
use crate::engine::rng::Rng;
use crate::engine::trace::{Telling, Trace, TraceHash};
use crate::verify::Violation;

/// Faults go on so long.
const FAULTS_MS: u64 = 400_000;
/// No monotonic clock jumps later: keys that both ends hold end for one of them before the other
/// replaces them, up to the life of a session after the jump, and that is no fault of the link.
const LAST_JUMP_MS: u64 = FAULTS_MS - limits::REJECT_AFTER_MS;
/// Packets of all leases flow both ways so long after the faults, at the latest. Whoever has
/// lost its keys and cannot begin is found by the other end, which hears nothing for 15 s and says
/// its initiation each 5 s, to one address after the other.
pub const HEALING_MS: u64 = 40_000;
/// What is sent every so often after the faults.
const EVERY_MS: u64 = 1_000;
/// A packet takes less than that over a link without faults.
const ARRIVAL_MS: u64 = 500;
/// Sizes of packets: small, and as large as passes over two datagrams at least.
const BYTES: [usize; 2] = [100, 1_280];

/// A trial of tunnels: gateways, time and a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelTrial {
    /// All chance comes of it.
    pub seed: u64,
    /// A mistake around all sessions.
    pub bug: Option<TunnelBug>,
}

/// What came of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelOutcome {
    /// Of everything that happened, in order.
    pub trace: TraceHash,
    /// How many packets have arrived.
    pub delivered: usize,
    /// After the faults: until packets of all leases flowed both ways, in ms.
    pub healed_ms: u64,
}

/// A trial that broke a promise.
#[derive(Clone, Debug)]
pub struct TunnelFailure {
    /// The trial in which it happened.
    pub trial: TunnelTrial,
    /// Which promise was broken, and how.
    pub violation: Violation,
    /// When it was broken, in ms of virtual time.
    pub at_ms: u64,
    /// The last lines before it.
    pub trace: Vec<String>,
}

impl TunnelTrial {
    /// Runs it. `aloud` prints the trace as it goes. One that fails is run again, to tell how it
    /// came to it.
    ///
    /// # Errors
    /// When a promise was broken.
    pub fn run(self, aloud: bool) -> Result<TunnelOutcome, Box<TunnelFailure>> {
        let first = self.play(if aloud { Telling::Aloud } else { Telling::Nothing });
        match first {
            Err(_) if !aloud => self.play(Telling::Last),
            outcome => outcome,
        }
    }

    fn play(self, telling: Telling) -> Result<TunnelOutcome, Box<TunnelFailure>> {
        let mut world = TunnelWorld::new(self.seed, self.bug, Trace::new(telling));
        let played = suffer(&mut world, self.seed).and_then(|()| heal(&mut world));
        let trace = world.trace.last().map(str::to_owned).collect();
        let at_ms = world.at_ms();
        let fail = |violation| Box::new(TunnelFailure { trial: self, violation, at_ms, trace });
        let healed_ms = played.map_err(fail)?;
        let (trace, delivered) = (world.trace.hash(), world.delivered());
        Ok(TunnelOutcome { trace, delivered, healed_ms })
    }
}

/// Faults of all kinds by chance, while packets are sent.
fn suffer(world: &mut TunnelWorld, seed: u64) -> Result<(), Violation> {
    let mut rng = Rng::new(seed, "tunnel troubles");
    while world.at_ms() < FAULTS_MS {
        let gateway = rng.within(0..=GATEWAYS as u64 - 1) as usize;
        match rng.within(0..=99) {
            0..50 => {
                let lease = rng.within(0..=LEASES.len() as u64 - 1) as usize;
                let is_from_first = rng.chance(500);
                for _ in 0..rng.within(1..=6) {
                    let bytes = rng.within(packet::LEAST_BYTES as u64..=1_280) as usize;
                    world.send(lease, is_from_first, bytes)?;
                }
            }
            50..85 => world.run_ms(rng.within(1..=4_000))?,
            85 | 86 => world.run_ms(rng.within(20_000..=200_000))?,
            87 => world.restart(gateway),
            88 | 89 => {
                let port = rng.within(4_000..=4_009) as u16;
                world.move_to(gateway, ([203, 0, 113, gateway as u8 + 1], port).into());
            }
            90 => world.set_wall_back(gateway, rng.within(0..=10_000_000)),
            91 => {
                let ms = rng.within(1_000..=400_000);
                if world.at_ms() < LAST_JUMP_MS {
                    world.jump(gateway, ms)?;
                }
            }
            92 | 93 => world.links.set_mtu(gateway, rng.within(1_280..=1_500) as usize),
            _ => world.replay()?,
        }
    }
    Ok(())
}

/// The faults stop. Gives when packets flowed again.
fn heal(world: &mut TunnelWorld) -> Result<u64, Violation> {
    world.heal();
    let (began_ms, mut broken_ms) = (world.at_ms(), world.at_ms());
    while world.at_ms() < began_ms + HEALING_MS + 10 * EVERY_MS {
        let mut sent = Vec::new();
        for (lease, bytes) in (0..LEASES.len()).flat_map(|lease| BYTES.map(|bytes| (lease, bytes)))
        {
            for is_from_first in [false, true] {
                sent.push((lease, is_from_first, world.send(lease, is_from_first, bytes)?));
            }
        }
        world.run_ms(ARRIVAL_MS)?;
        let missing = sent.iter().find(|(.., number)| !world.has_arrived(*number));
        if let Some((lease, is_from_first, number)) = missing {
            broken_ms = world.at_ms();
            if broken_ms > began_ms + HEALING_MS {
                let way = if *is_from_first { "from" } else { "to" };
                let told = format!("packet {number} of lease {lease} {way} the first is lost");
                return Err(Violation(format!("{told}, long after the faults")));
            }
        }
        world.run_ms(EVERY_MS - ARRIVAL_MS)?;
    }
    Ok(broken_ms - began_ms)
}

impl fmt::Display for TunnelTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simnet tunnel --from {} --seeds 1", self.seed)?;
        self.bug.map_or(Ok(()), |bug| write!(f, " --bug {bug}"))
    }
}

impl fmt::Display for TunnelFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.at_ms / 1_000, self.at_ms % 1_000);
        write!(f, "{}: at {seconds}.{millis:03} s: {}", self.trial, self.violation)
    }
}
