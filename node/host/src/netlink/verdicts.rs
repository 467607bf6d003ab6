//! What becomes of a packet, as nf_tables has it: a verdict in a register of its own or, where the sender
//! is told, a word of its own.

use super::message::{Attributes, Message};
use super::numbers::NF_ACCEPT;
use crate::error::KernelError;
use mercato_machine::Family;
use mercato_machine::Verdict;

const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;
const NF_DROP: u32 = 0;
const NFT_JUMP: u32 = (-3_i32).cast_unsigned();
const NFT_GOTO: u32 = (-4_i32).cast_unsigned();
// Of `reject`: an error of ICMP, and which (`NFT_REJECT_ICMP_UNREACH`); that nobody has the port
// (RFC 792; RFC 4443, section 3.1).
const NFTA_REJECT_TYPE: u16 = 1;
const NFTA_REJECT_ICMP_CODE: u16 = 2;
const NFT_REJECT_ICMP_UNREACH: u32 = 0;
const ICMP_PORT_UNREACH: u8 = 3;
const ICMPV6_PORT_UNREACH: u8 = 4;

/// Writes the data of a verdict's register.
pub(super) fn write(message: &mut Message, verdict: &Verdict) {
    message.nest(NFTA_DATA_VERDICT, |message| match verdict {
        Verdict::Accept => message.put_be32(NFTA_VERDICT_CODE, NF_ACCEPT),
        // Refused is what no word before it has.
        Verdict::Drop | Verdict::Reject(_) => message.put_be32(NFTA_VERDICT_CODE, NF_DROP),
        Verdict::Goto(chain) => {
            message.put_be32(NFTA_VERDICT_CODE, NFT_GOTO);
            message.put_text(NFTA_VERDICT_CHAIN, chain);
        }
    });
}

/// Reads the data of a verdict's register; none: it is none of ours.
pub(super) fn read(data: &Attributes<'_>) -> Result<Option<Verdict>, KernelError> {
    let verdict = data.within(NFTA_DATA_VERDICT)?;
    Ok(match verdict.be32(NFTA_VERDICT_CODE) {
        Some(NF_ACCEPT) => Some(Verdict::Accept),
        Some(NF_DROP) => Some(Verdict::Drop),
        Some(NFT_GOTO) => verdict.text(NFTA_VERDICT_CHAIN).map(Verdict::Goto),
        Some(_) | None => None,
    })
}

/// The chain that such data calls, to come back from it.
pub(super) fn jumps_to(data: &Attributes<'_>) -> Result<Option<String>, KernelError> {
    let verdict = data.within(NFTA_DATA_VERDICT)?;
    let is_jump = verdict.be32(NFTA_VERDICT_CODE) == Some(NFT_JUMP);
    Ok(verdict.text(NFTA_VERDICT_CHAIN).filter(|_| is_jump))
}

/// Writes what the word `reject` has.
pub(super) fn write_refusal(message: &mut Message, family: Family) {
    message.put_be32(NFTA_REJECT_TYPE, NFT_REJECT_ICMP_UNREACH);
    let code = match family {
        Family::V4 => ICMP_PORT_UNREACH,
        Family::V6 => ICMPV6_PORT_UNREACH,
    };
    message.put(NFTA_REJECT_ICMP_CODE, &[code]);
}

/// Reads what the word `reject` has; none: it is none of ours.
pub(super) fn read_refusal(attributes: &Attributes<'_>) -> Option<Verdict> {
    match (attributes.be32(NFTA_REJECT_TYPE), attributes.of(NFTA_REJECT_ICMP_CODE)) {
        (Some(NFT_REJECT_ICMP_UNREACH), Some(&[ICMP_PORT_UNREACH])) => {
            Some(Verdict::Reject(Family::V4))
        }
        (Some(NFT_REJECT_ICMP_UNREACH), Some(&[ICMPV6_PORT_UNREACH])) => {
            Some(Verdict::Reject(Family::V6))
        }
        _ => None,
    }
}
