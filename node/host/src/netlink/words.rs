//! The words of rules, as nf_tables has them: a name, and attributes of its own. Each works on the
//! first register; what uses another one is none of ours.

use super::message::{Attributes, Message};
use super::{maps, tally, verdicts};
use crate::error::KernelError;
use mercato_machine::Family;
use mercato_machine::{Expression, Verdict};

#[cfg(test)]
mod tests;

const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
/// The register of verdicts, and ours (`NFT_REG_...`).
const NFT_REG_VERDICT: u32 = 0;
const NFT_REG_1: u32 = 1;
// Of data.
const NFTA_DATA_VALUE: u16 = 1;
// Of `meta`, and what it loads (`NFT_META_...`).
const NFTA_META_DREG: u16 = 1;
const NFTA_META_KEY: u16 = 2;
const NFT_META_PROTOCOL: u32 = 1;
const NFT_META_MARK: u32 = 3;
const NFT_META_IIFNAME: u32 = 6;
const NFT_META_OIFNAME: u32 = 7;
const NFT_META_L4PROTO: u32 = 16;
// Of `ct` (`NFT_CT_...`).
const NFTA_CT_DREG: u16 = 1;
const NFTA_CT_KEY: u16 = 2;
const NFTA_CT_DIRECTION: u16 = 3;
const NFT_CT_STATE: u32 = 0;
const NFT_CT_DIRECTION: u32 = 1;
const NFT_CT_STATUS: u32 = 2;
const NFT_CT_DST_IP: u32 = 20;
const NFT_CT_DST_IP6: u32 = 22;
const IP_CT_DIR_REPLY: &[u8] = &[1];
// Of `payload`; the bases are the headers of the frame, of the network, and of what is in it.
const NFTA_PAYLOAD_DREG: u16 = 1;
const NFTA_PAYLOAD_BASE: u16 = 2;
const NFTA_PAYLOAD_OFFSET: u16 = 3;
const NFTA_PAYLOAD_LEN: u16 = 4;
const NFT_PAYLOAD_LL_HEADER: u32 = 0;
const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
// Of `immediate`.
const NFTA_IMMEDIATE_DREG: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;
// Of `bitwise`: what is kept is turned over by the second one.
const NFTA_BITWISE_SREG: u16 = 1;
const NFTA_BITWISE_DREG: u16 = 2;
const NFTA_BITWISE_LEN: u16 = 3;
const NFTA_BITWISE_MASK: u16 = 4;
const NFTA_BITWISE_XOR: u16 = 5;
const NFTA_BITWISE_OP: u16 = 6;
// Of `cmp`.
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFT_CMP_EQ: u32 = 0;
const NFT_CMP_NEQ: u32 = 1;
// Of `lookup`.
const NFTA_LOOKUP_SET: u16 = 1;
const NFTA_LOOKUP_SREG: u16 = 2;
const NFTA_LOOKUP_DREG: u16 = 3;
const NFTA_LOOKUP_FLAGS: u16 = 5;
const NFT_LOOKUP_F_INV: u32 = 1;
// Of `nat`.
const NFTA_NAT_TYPE: u16 = 1;
const NFTA_NAT_FAMILY: u16 = 2;
const NFTA_NAT_REG_ADDR_MIN: u16 = 3;
const NFTA_NAT_REG_ADDR_MAX: u16 = 4;
const NFTA_NAT_FLAGS: u16 = 7;
/// The kernel says by itself that an address is given (`NF_NAT_RANGE_MAP_IPS`).
const NF_NAT_RANGE_MAP_IPS: u32 = 1;
const NFT_NAT_SNAT: u32 = 0;
const NFPROTO_IPV4: u32 = 2;
const NFPROTO_IPV6: u32 = 10;
// Of `fib`: whether there is a device that a source is reached by, and it is that of the packet.
const NFTA_FIB_F_SADDR: u32 = 1;
const NFTA_FIB_F_IIF: u32 = 1 << 3;
const NFTA_FIB_F_PRESENT: u32 = 1 << 5;
const NFTA_FIB_DREG: u16 = 1;
const NFTA_FIB_RESULT: u16 = 2;
const NFTA_FIB_FLAGS: u16 = 3;
const NFT_FIB_RESULT_OIF: u32 = 1;
const SADDR_IIF_PRESENT: u32 = NFTA_FIB_F_SADDR | NFTA_FIB_F_IIF | NFTA_FIB_F_PRESENT;

/// Writes one word of a rule.
pub(super) fn write(message: &mut Message, expression: &Expression) {
    let load = |message: &mut Message, name: &str, to: u16, key: u16, what: u32| {
        word(message, name, |message| {
            message.put_be32(to, NFT_REG_1);
            message.put_be32(key, what);
        });
    };
    let meta =
        |message: &mut Message, what| load(message, "meta", NFTA_META_DREG, NFTA_META_KEY, what);
    let ct = |message: &mut Message, what| load(message, "ct", NFTA_CT_DREG, NFTA_CT_KEY, what);
    match expression {
        Expression::MetaIifname => meta(message, NFT_META_IIFNAME),
        Expression::MetaOifname => meta(message, NFT_META_OIFNAME),
        Expression::MetaMark => meta(message, NFT_META_MARK),
        Expression::MetaL4Proto => meta(message, NFT_META_L4PROTO),
        Expression::MetaProtocol => meta(message, NFT_META_PROTOCOL),
        Expression::CtState => ct(message, NFT_CT_STATE),
        Expression::CtStatus => ct(message, NFT_CT_STATUS),
        Expression::CtDirection => ct(message, NFT_CT_DIRECTION),
        Expression::CtReplyDst(family) => word(message, "ct", |message| {
            message.put_be32(NFTA_CT_DREG, NFT_REG_1);
            message.put_be32(NFTA_CT_KEY, reply_destination(*family));
            message.put(NFTA_CT_DIRECTION, IP_CT_DIR_REPLY);
        }),
        Expression::FibSaddrIifPresent => word(message, "fib", |message| {
            message.put_be32(NFTA_FIB_DREG, NFT_REG_1);
            message.put_be32(NFTA_FIB_RESULT, NFT_FIB_RESULT_OIF);
            message.put_be32(NFTA_FIB_FLAGS, SADDR_IIF_PRESENT);
        }),
        Expression::PayloadLl { offset, len } => {
            payload(message, NFT_PAYLOAD_LL_HEADER, *offset, *len);
        }
        Expression::PayloadNetwork { offset, len } => {
            payload(message, NFT_PAYLOAD_NETWORK_HEADER, *offset, *len);
        }
        Expression::PayloadTransport { offset, len } => {
            payload(message, NFT_PAYLOAD_TRANSPORT_HEADER, *offset, *len);
        }
        Expression::Immediate(bytes) => word(message, "immediate", |message| {
            message.put_be32(NFTA_IMMEDIATE_DREG, NFT_REG_1);
            data(message, NFTA_IMMEDIATE_DATA, bytes);
        }),
        Expression::Bitwise(mask) => bitwise(message, mask),
        Expression::CmpEq(value) => compare(message, NFT_CMP_EQ, value),
        Expression::CmpNeq(value) => compare(message, NFT_CMP_NEQ, value),
        Expression::Lookup(set) => look_up(message, set, None),
        Expression::LookupInv(set) => {
            look_up(message, set, Some((NFTA_LOOKUP_FLAGS, NFT_LOOKUP_F_INV)));
        }
        Expression::LookupDreg(map) => look_up(message, map, Some((NFTA_LOOKUP_DREG, NFT_REG_1))),
        Expression::PayloadSet(what) => {
            word(message, "payload", |message| maps::write(message, NFT_REG_1, *what));
        }
        Expression::Dynset(tally, bound) => {
            word(message, "dynset", |message| tally::write(message, NFT_REG_1, tally, bound));
        }
        Expression::Limit { rate, burst } => {
            word(message, "limit", |message| tally::write_limit(message, *rate, *burst));
        }
        Expression::Counter => bare(message, "counter"),
        Expression::Notrack => bare(message, "notrack"),
        Expression::Masquerade => bare(message, "masq"),
        Expression::Snat(family) => snat(message, *family),
        Expression::Verdict(Verdict::Reject(family)) => reject(message, *family),
        Expression::Verdict(verdict) => word(message, "immediate", |message| {
            message.put_be32(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
            message.nest(NFTA_IMMEDIATE_DATA, |message| verdicts::write(message, verdict));
        }),
        // The kernel refuses it: a plan has none.
        Expression::Other(name) => bare(message, name),
    }
}

fn reply_destination(family: Family) -> u32 {
    match family {
        Family::V4 => NFT_CT_DST_IP,
        Family::V6 => NFT_CT_DST_IP6,
    }
}

fn protocol(family: Family) -> u32 {
    match family {
        Family::V4 => NFPROTO_IPV4,
        Family::V6 => NFPROTO_IPV6,
    }
}

fn payload(message: &mut Message, base: u32, offset: u32, len: u32) {
    word(message, "payload", |message| {
        message.put_be32(NFTA_PAYLOAD_DREG, NFT_REG_1);
        message.put_be32(NFTA_PAYLOAD_BASE, base);
        message.put_be32(NFTA_PAYLOAD_OFFSET, offset);
        message.put_be32(NFTA_PAYLOAD_LEN, len);
    });
}

fn bitwise(message: &mut Message, mask: &[u8]) {
    word(message, "bitwise", |message| {
        message.put_be32(NFTA_BITWISE_SREG, NFT_REG_1);
        message.put_be32(NFTA_BITWISE_DREG, NFT_REG_1);
        message.put_be32(NFTA_BITWISE_LEN, mask.len() as u32);
        data(message, NFTA_BITWISE_MASK, mask);
        data(message, NFTA_BITWISE_XOR, &vec![0; mask.len()]);
    });
}

fn snat(message: &mut Message, family: Family) {
    word(message, "nat", |message| {
        message.put_be32(NFTA_NAT_TYPE, NFT_NAT_SNAT);
        message.put_be32(NFTA_NAT_FAMILY, protocol(family));
        message.put_be32(NFTA_NAT_REG_ADDR_MIN, NFT_REG_1);
    });
}

fn compare(message: &mut Message, kind: u32, value: &[u8]) {
    word(message, "cmp", |message| {
        message.put_be32(NFTA_CMP_SREG, NFT_REG_1);
        message.put_be32(NFTA_CMP_OP, kind);
        data(message, NFTA_CMP_DATA, value);
    });
}

/// In a set, or with one more word.
fn look_up(message: &mut Message, set: &str, with: Option<(u16, u32)>) {
    word(message, "lookup", |message| {
        message.put_text(NFTA_LOOKUP_SET, set);
        message.put_be32(NFTA_LOOKUP_SREG, NFT_REG_1);
        if let Some((attribute, what)) = with {
            message.put_be32(attribute, what);
        }
    });
}

fn reject(message: &mut Message, family: Family) {
    word(message, "reject", |message| verdicts::write_refusal(message, family));
}

/// One that has nothing to say.
fn bare(message: &mut Message, name: &str) {
    word(message, name, |_| {});
}

fn word(message: &mut Message, name: &str, fill: impl FnOnce(&mut Message)) {
    message.put_text(NFTA_EXPR_NAME, name);
    message.nest(NFTA_EXPR_DATA, fill);
}

fn data(message: &mut Message, kind: u16, bytes: &[u8]) {
    message.nest(kind, |message| message.put(NFTA_DATA_VALUE, bytes));
}

/// Reads one word of a rule.
pub(super) fn read(bytes: &[u8]) -> Result<Expression, KernelError> {
    let word = Attributes::read(bytes)?;
    let name = word.text(NFTA_EXPR_NAME).unwrap_or_default();
    let attributes = word.within(NFTA_EXPR_DATA)?;
    let known = match name.as_str() {
        "meta" => read_meta(&attributes),
        "ct" => read_ct(&attributes),
        "payload" => read_payload(&attributes).or_else(|| maps::read(&attributes, NFT_REG_1)),
        "immediate" => read_immediate(&attributes)?,
        "bitwise" => read_bitwise(&attributes)?,
        "cmp" => read_compare(&attributes)?,
        "lookup" => read_lookup(&attributes),
        "dynset" => tally::read(&attributes, NFT_REG_1)?,
        "limit" => {
            tally::read_limit(&attributes).map(|(rate, burst)| Expression::Limit { rate, burst })
        }
        "counter" => Some(Expression::Counter),
        "notrack" => Some(Expression::Notrack),
        "masq" => attributes.is_empty().then_some(Expression::Masquerade),
        "nat" => read_nat(&attributes),
        "fib" => read_fib(&attributes),
        "reject" => verdicts::read_refusal(&attributes).map(Expression::Verdict),
        _ => None,
    };
    Ok(known.unwrap_or(Expression::Other(name)))
}

/// The chain that a word of a rule calls, if it calls one.
pub(super) fn jumps_to(bytes: &[u8]) -> Result<Option<String>, KernelError> {
    verdicts::jumps_to(
        &Attributes::read(bytes)?.within(NFTA_EXPR_DATA)?.within(NFTA_IMMEDIATE_DATA)?,
    )
}

fn is_ours(attributes: &Attributes<'_>, kind: u16) -> Option<()> {
    (attributes.be32(kind) == Some(NFT_REG_1)).then_some(())
}

fn read_meta(attributes: &Attributes<'_>) -> Option<Expression> {
    is_ours(attributes, NFTA_META_DREG)?;
    match attributes.be32(NFTA_META_KEY)? {
        NFT_META_MARK => Some(Expression::MetaMark),
        NFT_META_L4PROTO => Some(Expression::MetaL4Proto),
        NFT_META_PROTOCOL => Some(Expression::MetaProtocol),
        NFT_META_IIFNAME => Some(Expression::MetaIifname),
        NFT_META_OIFNAME => Some(Expression::MetaOifname),
        _ => None,
    }
}

fn read_ct(attributes: &Attributes<'_>) -> Option<Expression> {
    is_ours(attributes, NFTA_CT_DREG)?;
    match (attributes.be32(NFTA_CT_KEY)?, attributes.of(NFTA_CT_DIRECTION)) {
        (NFT_CT_STATE, None) => Some(Expression::CtState),
        (NFT_CT_STATUS, None) => Some(Expression::CtStatus),
        (NFT_CT_DIRECTION, None) => Some(Expression::CtDirection),
        (NFT_CT_DST_IP, Some(IP_CT_DIR_REPLY)) => Some(Expression::CtReplyDst(Family::V4)),
        (NFT_CT_DST_IP6, Some(IP_CT_DIR_REPLY)) => Some(Expression::CtReplyDst(Family::V6)),
        _ => None,
    }
}

fn read_payload(attributes: &Attributes<'_>) -> Option<Expression> {
    is_ours(attributes, NFTA_PAYLOAD_DREG)?;
    let offset = attributes.be32(NFTA_PAYLOAD_OFFSET)?;
    let len = attributes.be32(NFTA_PAYLOAD_LEN)?;
    match attributes.be32(NFTA_PAYLOAD_BASE)? {
        NFT_PAYLOAD_LL_HEADER => Some(Expression::PayloadLl { offset, len }),
        NFT_PAYLOAD_NETWORK_HEADER => Some(Expression::PayloadNetwork { offset, len }),
        NFT_PAYLOAD_TRANSPORT_HEADER => Some(Expression::PayloadTransport { offset, len }),
        _ => None,
    }
}

fn read_immediate(attributes: &Attributes<'_>) -> Result<Option<Expression>, KernelError> {
    let data = attributes.within(NFTA_IMMEDIATE_DATA)?;
    if attributes.be32(NFTA_IMMEDIATE_DREG) == Some(NFT_REG_1) {
        return Ok(data.of(NFTA_DATA_VALUE).map(|value| Expression::Immediate(value.to_vec())));
    }
    Ok(verdicts::read(&data)?.map(Expression::Verdict))
}

fn read_bitwise(attributes: &Attributes<'_>) -> Result<Option<Expression>, KernelError> {
    let (mask, xor) = (attributes.within(NFTA_BITWISE_MASK)?, attributes.within(NFTA_BITWISE_XOR)?);
    let is_mask = attributes.be32(NFTA_BITWISE_OP).unwrap_or(0) == 0
        && xor.of(NFTA_DATA_VALUE).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
    let ours = is_ours(attributes, NFTA_BITWISE_SREG).and(is_ours(attributes, NFTA_BITWISE_DREG));
    let mask = mask.of(NFTA_DATA_VALUE).filter(|_| is_mask && ours.is_some());
    Ok(mask.map(|mask| Expression::Bitwise(mask.to_vec())))
}

fn read_compare(attributes: &Attributes<'_>) -> Result<Option<Expression>, KernelError> {
    let data = attributes.within(NFTA_CMP_DATA)?;
    let value = data.of(NFTA_DATA_VALUE).filter(|_| is_ours(attributes, NFTA_CMP_SREG).is_some());
    Ok(value.and_then(|value| match attributes.be32(NFTA_CMP_OP)? {
        NFT_CMP_EQ => Some(Expression::CmpEq(value.to_vec())),
        NFT_CMP_NEQ => Some(Expression::CmpNeq(value.to_vec())),
        _ => None,
    }))
}

fn read_lookup(attributes: &Attributes<'_>) -> Option<Expression> {
    is_ours(attributes, NFTA_LOOKUP_SREG)?;
    let set = attributes.text(NFTA_LOOKUP_SET)?;
    match (attributes.be32(NFTA_LOOKUP_DREG), attributes.be32(NFTA_LOOKUP_FLAGS).unwrap_or(0)) {
        (None, 0) => Some(Expression::Lookup(set)),
        (None, NFT_LOOKUP_F_INV) => Some(Expression::LookupInv(set)),
        (Some(NFT_REG_1), 0) => Some(Expression::LookupDreg(set)),
        _ => None,
    }
}

fn read_nat(attributes: &Attributes<'_>) -> Option<Expression> {
    is_ours(attributes, NFTA_NAT_REG_ADDR_MIN)?;
    let number = attributes.be32(NFTA_NAT_FAMILY)?;
    let family = Family::ALL.into_iter().find(|family| protocol(*family) == number)?;
    let is_plain = attributes.be32(NFTA_NAT_TYPE)? == NFT_NAT_SNAT
        && attributes.be32(NFTA_NAT_REG_ADDR_MAX).unwrap_or(NFT_REG_1) == NFT_REG_1
        && attributes.be32(NFTA_NAT_FLAGS).unwrap_or(NF_NAT_RANGE_MAP_IPS) == NF_NAT_RANGE_MAP_IPS
        && !attributes.has_others(&[
            NFTA_NAT_TYPE,
            NFTA_NAT_FAMILY,
            NFTA_NAT_REG_ADDR_MIN,
            NFTA_NAT_REG_ADDR_MAX,
            NFTA_NAT_FLAGS,
        ]);
    is_plain.then_some(Expression::Snat(family))
}

fn read_fib(attributes: &Attributes<'_>) -> Option<Expression> {
    is_ours(attributes, NFTA_FIB_DREG)?;
    let what = (attributes.be32(NFTA_FIB_RESULT)?, attributes.be32(NFTA_FIB_FLAGS)?);
    (what == (NFT_FIB_RESULT_OIF, SADDR_IIF_PRESENT)).then_some(Expression::FibSaddrIifPresent)
}
