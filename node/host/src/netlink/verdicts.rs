//! What becomes of a packet, as nf_tables has it: a verdict in a register of its own or, where the sender
//! is told, a word of its own.

use super::message::{Attributes, Message};
use super::numbers::ACCEPT;
use crate::error::KernelError;
use mercato_machine::Family;
use mercato_machine::Verdict;

const VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;
const DROP: u32 = 0;
const JUMP: u32 = (-3_i32).cast_unsigned();
const GOTO: u32 = (-4_i32).cast_unsigned();
// Of `reject`: an error of ICMP, and which (`NFT_REJECT_ICMP_UNREACH`); that nobody has the port
// (RFC 792; RFC 4443, section 3.1).
const REFUSE_TYPE: u16 = 1;
const REFUSE_CODE: u16 = 2;
const BY_ICMP: u32 = 0;
const NO_PORT: u8 = 3;
const NO_PORT_OF_IPV6: u8 = 4;

/// Writes the data of a verdict's register.
pub(super) fn write(message: &mut Message, verdict: &Verdict) {
    message.nest(VERDICT, |message| match verdict {
        Verdict::Accept => message.put_be32(VERDICT_CODE, ACCEPT),
        // Refused is what no word before it has.
        Verdict::Drop | Verdict::Refuse(_) => message.put_be32(VERDICT_CODE, DROP),
        Verdict::Goto(chain) => {
            message.put_be32(VERDICT_CODE, GOTO);
            message.put_text(VERDICT_CHAIN, chain);
        }
    });
}

/// Reads the data of a verdict's register; none: it is none of ours.
pub(super) fn read(data: &Attributes<'_>) -> Result<Option<Verdict>, KernelError> {
    let verdict = data.within(VERDICT)?;
    Ok(match verdict.be32(VERDICT_CODE) {
        Some(ACCEPT) => Some(Verdict::Accept),
        Some(DROP) => Some(Verdict::Drop),
        Some(GOTO) => verdict.text(VERDICT_CHAIN).map(Verdict::Goto),
        Some(_) | None => None,
    })
}

/// The chain that such data calls, to come back from it.
pub(super) fn jumps_to(data: &Attributes<'_>) -> Result<Option<String>, KernelError> {
    let verdict = data.within(VERDICT)?;
    let is_jump = verdict.be32(VERDICT_CODE) == Some(JUMP);
    Ok(verdict.text(VERDICT_CHAIN).filter(|_| is_jump))
}

/// Writes what the word `reject` has.
pub(super) fn write_refusal(message: &mut Message, family: Family) {
    message.put_be32(REFUSE_TYPE, BY_ICMP);
    let code = match family {
        Family::V4 => NO_PORT,
        Family::V6 => NO_PORT_OF_IPV6,
    };
    message.put(REFUSE_CODE, &[code]);
}

/// Reads what the word `reject` has; none: it is none of ours.
pub(super) fn read_refusal(attributes: &Attributes<'_>) -> Option<Verdict> {
    match (attributes.be32(REFUSE_TYPE), attributes.of(REFUSE_CODE)) {
        (Some(BY_ICMP), Some(&[NO_PORT])) => Some(Verdict::Refuse(Family::V4)),
        (Some(BY_ICMP), Some(&[NO_PORT_OF_IPV6])) => Some(Verdict::Refuse(Family::V6)),
        _ => None,
    }
}
