//! Chains of one hook, by their priorities, and where a packet goes from one to another.

use super::error::InterpretError;
use super::facts::{Conntrack, Facts};
use super::frame::{Frame, Transport};
use super::outcome::{Decision, Outcome, Passage};
use super::rule::Asked;
use super::tables::Tables;
use crate::packets::{FrameTable, Hook, Side, Table, Verdict};

/// Conntrack is asked there (`NF_IP_PRI_CONNTRACK`): who comes before knows nothing of it.
const CONNTRACK: i32 = -200;
/// The type of chains that are asked about the first packet of a connection alone.
const NAT: &str = "nat";

/// A chain that packets come into by themselves.
struct Based<'a> {
    tables: Tables<'a>,
    name: &'a str,
    priority: i32,
    accepts: bool,
    is_nat: bool,
    /// What is in the packet, as a chain of this kind looks at it.
    transport: fn(&Frame) -> Option<Transport>,
}

/// What the rules of a device say of a frame that comes in by it, or goes out.
///
/// # Errors
/// The first thing in the rules asked that cannot be followed.
pub fn at_device<'a>(
    tables: &[&'a FrameTable],
    device: &str,
    side: Side,
    frame: Frame,
    facts: &Facts<'_>,
) -> Result<Outcome<'a>, InterpretError> {
    let mut based = Vec::new();
    for table in tables {
        for (name, chain) in &table.chains {
            let here = chain.base.as_ref();
            let Some(base) = here.filter(|it| it.device == device && it.side == side) else {
                continue;
            };
            based.push(Based {
                tables: Tables::Frames(table),
                name,
                priority: base.priority,
                accepts: base.accepts,
                is_nat: false,
                transport: Frame::checked_transport,
            });
        }
    }
    all(based, frame, facts, facts.conntrack)
}

/// What the machine's own rules say of a packet at a hook. Tables of another family do not see it.
///
/// # Errors
/// The first thing in the rules asked that cannot be followed.
pub fn at_hook<'a>(
    tables: &[&'a Table],
    hook: Hook,
    packet: Frame,
    facts: &Facts<'_>,
) -> Result<Outcome<'a>, InterpretError> {
    let mut based = Vec::new();
    for table in tables.iter().filter(|table| Some(table.family) == packet.family()) {
        for (name, chain) in &table.chains {
            let Some(base) = chain.base.as_ref().filter(|base| base.hook == hook) else { continue };
            based.push(Based {
                tables: Tables::Packets(table),
                name,
                priority: base.priority,
                accepts: base.accepts,
                is_nat: base.kind == NAT,
                transport: Frame::transport,
            });
        }
    }
    let is_first = matches!(hook, Hook::Prerouting | Hook::Output);
    let (before, after): (Vec<_>, Vec<_>) =
        based.into_iter().partition(|chain| is_first && chain.priority < CONNTRACK);
    let early = all(before, packet, facts, Conntrack::Invalid)?;
    if !early.has_passed() {
        return Ok(early);
    }
    let conntrack = if early.notrack { Conntrack::Untracked } else { facts.conntrack };
    let mut late = all(after, early.frame, facts, conntrack)?;
    late.decisions.splice(..0, early.decisions);
    late.notrack |= early.notrack;
    Ok(late)
}

/// Asks chains in order: one that drops ends it, and one that accepts ends itself alone.
fn all<'a>(
    mut based: Vec<Based<'a>>,
    frame: Frame,
    facts: &Facts<'_>,
    conntrack: Conntrack,
) -> Result<Outcome<'a>, InterpretError> {
    // Of those with one priority the kernel asks the one first that came last
    // (`nf_hook_entries_grow`), and they come by their names.
    based.reverse();
    based.sort_by_key(|chain| chain.priority);
    let mut outcome = Outcome::of(frame);
    for chain in based {
        let gives_none = conntrack.connection().is_none_or(|it| !it.has_no_source());
        // The first chain that gives a source is the last that is asked.
        if chain.is_nat && (gives_none || outcome.snat.is_some() || outcome.masquerades) {
            continue;
        }
        let frame = std::mem::replace(&mut outcome.frame, Frame::packet(Vec::new()));
        let mut asked = Asked {
            tables: chain.tables,
            chain: chain.name,
            facts,
            conntrack,
            transport: (chain.transport)(&frame),
            frame,
            notrack: outcome.notrack,
            snat: outcome.snat,
            masquerades: outcome.masquerades,
        };
        let (verdict, decision) = through(&mut asked, chain.name)?;
        (outcome.frame, outcome.notrack, outcome.snat) = (asked.frame, asked.notrack, asked.snat);
        outcome.masquerades = asked.masquerades;
        outcome.decisions.push(decision);
        outcome.passage = match verdict {
            Some(Verdict::Accept) => Passage::Passed,
            Some(Verdict::Reject(_)) => Passage::Rejected,
            Some(Verdict::Drop | Verdict::Goto(_)) => Passage::Dropped,
            None if chain.accepts => Passage::Passed,
            None => Passage::Dropped,
        };
        if outcome.passage != Passage::Passed {
            break;
        }
    }
    Ok(outcome)
}

/// What one chain says, and those that it sends the packet to; none: its policy holds.
fn through<'a>(
    asked: &mut Asked<'a, '_>,
    first: &'a str,
) -> Result<(Option<&'a Verdict>, Decision<'a>), InterpretError> {
    let (table, mut chain) = (asked.tables.name(), first);
    // Nobody comes back from a chain, so that each is asked once.
    for _ in 0..=asked.tables.chains() {
        asked.chain = chain;
        let mut next = None;
        for (number, rule) in asked.tables.rules(chain)?.iter().enumerate() {
            match asked.rule(rule)? {
                None => {}
                Some(Verdict::Goto(other)) => {
                    next = Some(other);
                    break;
                }
                Some(verdict) => {
                    let rule_at = Some(number);
                    let comment = &rule.comment;
                    let decision = Decision { table, chain, rule: rule_at, comment };
                    return Ok((Some(verdict), decision));
                }
            }
        }
        match next {
            Some(other) => chain = other,
            None => return Ok((None, Decision { table, chain, rule: None, comment: "" })),
        }
    }
    Err(InterpretError::Loop(chain.to_owned()))
}
