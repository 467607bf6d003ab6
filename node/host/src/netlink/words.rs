//! The words of rules, as nf_tables has them: a name, and attributes of its own. Each works on the
//! first register; what uses another one is none of ours.

use super::message::{Attributes, Message};
use super::{maps, tally, verdicts};
use crate::error::KernelError;
use mercato_machine::Family;
use mercato_machine::{Expression, Verdict};

const NAME: u16 = 1;
const DATA: u16 = 2;
/// The register of verdicts, and ours (`NFT_REG_...`).
const VERDICTS: u32 = 0;
const REGISTER: u32 = 1;
// Of data.
const VALUE: u16 = 1;
// Of `meta`, and what it loads (`NFT_META_...`).
const META_TO: u16 = 1;
const META_KEY: u16 = 2;
const KIND: u32 = 1;
const MARK: u32 = 3;
const INPUT_NAME: u32 = 6;
const OUTPUT_NAME: u32 = 7;
const PROTOCOL: u32 = 16;
// Of `ct` (`NFT_CT_...`).
const CT_TO: u16 = 1;
const CT_KEY: u16 = 2;
const CT_DIRECTION: u16 = 3;
const STATE: u32 = 0;
const DIRECTION: u32 = 1;
const STATUS: u32 = 2;
const DESTINATION_IPV4: u32 = 20;
const DESTINATION_IPV6: u32 = 22;
const REPLY: &[u8] = &[1];
// Of `payload`; the bases are the headers of the frame, of the network, and of what is in it.
const PAYLOAD_TO: u16 = 1;
const PAYLOAD_BASE: u16 = 2;
const PAYLOAD_OFFSET: u16 = 3;
const PAYLOAD_BYTES: u16 = 4;
const FRAME_HEADER: u32 = 0;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT: u32 = 2;
// Of `immediate`.
const IMMEDIATE_TO: u16 = 1;
const IMMEDIATE_DATA: u16 = 2;
// Of `bitwise`: what is kept is turned over by the second one.
const BITWISE_FROM: u16 = 1;
const BITWISE_TO: u16 = 2;
const BITWISE_BYTES: u16 = 3;
const BITWISE_MASK: u16 = 4;
const BITWISE_XOR: u16 = 5;
const BITWISE_KIND: u16 = 6;
// Of `cmp`.
const COMPARE_FROM: u16 = 1;
const COMPARE_KIND: u16 = 2;
const COMPARE_DATA: u16 = 3;
const EQUAL: u32 = 0;
const DIFFERENT: u32 = 1;
// Of `lookup`.
const LOOKUP_SET: u16 = 1;
const LOOKUP_FROM: u16 = 2;
const LOOKUP_TO: u16 = 3;
const LOOKUP_FLAGS: u16 = 5;
const IS_NOT_IN: u32 = 1;
// Of `nat`.
const NAT_KIND: u16 = 1;
const NAT_FAMILY: u16 = 2;
const NAT_LEAST: u16 = 3;
const NAT_MOST: u16 = 4;
const NAT_FLAGS: u16 = 7;
/// The kernel says by itself that an address is given (`NF_NAT_RANGE_MAP_IPS`).
const GIVES_ADDRESS: u32 = 1;
const SNAT: u32 = 0;
const IPV4: u32 = 2;
const IPV6: u32 = 10;
// Of `fib`: whether there is a device that a source is reached by, and it is that of the packet.
const FIB_TO: u16 = 1;
const FIB_RESULT: u16 = 2;
const FIB_FLAGS: u16 = 3;
const DEVICE: u32 = 1;
const OF_SOURCE_BY_INPUT_IS_THERE: u32 = 1 | 1 << 3 | 1 << 5;

/// Writes one word of a rule.
pub(super) fn write(message: &mut Message, expression: &Expression) {
    let load = |message: &mut Message, name: &str, to: u16, key: u16, what: u32| {
        word(message, name, |message| {
            message.put_be32(to, REGISTER);
            message.put_be32(key, what);
        });
    };
    match expression {
        Expression::InputName => load(message, "meta", META_TO, META_KEY, INPUT_NAME),
        Expression::OutputName => load(message, "meta", META_TO, META_KEY, OUTPUT_NAME),
        Expression::Mark => load(message, "meta", META_TO, META_KEY, MARK),
        Expression::Protocol => load(message, "meta", META_TO, META_KEY, PROTOCOL),
        Expression::Kind => load(message, "meta", META_TO, META_KEY, KIND),
        Expression::State => load(message, "ct", CT_TO, CT_KEY, STATE),
        Expression::Status => load(message, "ct", CT_TO, CT_KEY, STATUS),
        Expression::Direction => load(message, "ct", CT_TO, CT_KEY, DIRECTION),
        Expression::ReplyDestination(family) => word(message, "ct", |message| {
            message.put_be32(CT_TO, REGISTER);
            message.put_be32(CT_KEY, reply_destination(*family));
            message.put(CT_DIRECTION, REPLY);
        }),
        Expression::LeadsBack => word(message, "fib", |message| {
            message.put_be32(FIB_TO, REGISTER);
            message.put_be32(FIB_RESULT, DEVICE);
            message.put_be32(FIB_FLAGS, OF_SOURCE_BY_INPUT_IS_THERE);
        }),
        Expression::Frame { offset, bytes } => header(message, FRAME_HEADER, *offset, *bytes),
        Expression::Header { offset, bytes } => header(message, NETWORK_HEADER, *offset, *bytes),
        Expression::Transport { offset, bytes } => header(message, TRANSPORT, *offset, *bytes),
        Expression::Value(bytes) => word(message, "immediate", |message| {
            message.put_be32(IMMEDIATE_TO, REGISTER);
            data(message, IMMEDIATE_DATA, bytes);
        }),
        Expression::Mask(mask) => word(message, "bitwise", |message| {
            message.put_be32(BITWISE_FROM, REGISTER);
            message.put_be32(BITWISE_TO, REGISTER);
            message.put_be32(BITWISE_BYTES, mask.len() as u32);
            data(message, BITWISE_MASK, mask);
            data(message, BITWISE_XOR, &vec![0; mask.len()]);
        }),
        Expression::Is(value) => compare(message, EQUAL, value),
        Expression::IsNot(value) => compare(message, DIFFERENT, value),
        Expression::In(set) => look_up(message, set, None),
        Expression::NotIn(set) => look_up(message, set, Some((LOOKUP_FLAGS, IS_NOT_IN))),
        Expression::ByMap(map) => look_up(message, map, Some((LOOKUP_TO, REGISTER))),
        Expression::Write(what) => {
            word(message, "payload", |message| maps::write(message, REGISTER, *what));
        }
        Expression::Over(tally, bound) => {
            word(message, "dynset", |message| tally::write(message, REGISTER, tally, bound));
        }
        Expression::Often { a_second, burst } => {
            word(message, "limit", |message| tally::write_limit(message, *a_second, *burst));
        }
        Expression::Count => word(message, "counter", |_| {}),
        Expression::Untracked => word(message, "notrack", |_| {}),
        Expression::Snat(family) => word(message, "nat", |message| {
            message.put_be32(NAT_KIND, SNAT);
            message.put_be32(NAT_FAMILY, protocol(*family));
            message.put_be32(NAT_LEAST, REGISTER);
        }),
        Expression::Verdict(Verdict::Refuse(family)) => {
            word(message, "reject", |message| verdicts::write_refusal(message, *family));
        }
        Expression::Verdict(verdict) => word(message, "immediate", |message| {
            message.put_be32(IMMEDIATE_TO, VERDICTS);
            message.nest(IMMEDIATE_DATA, |message| verdicts::write(message, verdict));
        }),
        // The kernel refuses it: a plan has none.
        Expression::Other(name) => word(message, name, |_| {}),
    }
}

fn reply_destination(family: Family) -> u32 {
    match family {
        Family::V4 => DESTINATION_IPV4,
        Family::V6 => DESTINATION_IPV6,
    }
}

fn protocol(family: Family) -> u32 {
    match family {
        Family::V4 => IPV4,
        Family::V6 => IPV6,
    }
}

fn header(message: &mut Message, base: u32, offset: u32, bytes: u32) {
    word(message, "payload", |message| {
        message.put_be32(PAYLOAD_TO, REGISTER);
        message.put_be32(PAYLOAD_BASE, base);
        message.put_be32(PAYLOAD_OFFSET, offset);
        message.put_be32(PAYLOAD_BYTES, bytes);
    });
}

fn compare(message: &mut Message, kind: u32, value: &[u8]) {
    word(message, "cmp", |message| {
        message.put_be32(COMPARE_FROM, REGISTER);
        message.put_be32(COMPARE_KIND, kind);
        data(message, COMPARE_DATA, value);
    });
}

/// In a set, or with one more word.
fn look_up(message: &mut Message, set: &str, with: Option<(u16, u32)>) {
    word(message, "lookup", |message| {
        message.put_text(LOOKUP_SET, set);
        message.put_be32(LOOKUP_FROM, REGISTER);
        if let Some((attribute, what)) = with {
            message.put_be32(attribute, what);
        }
    });
}

fn word(message: &mut Message, name: &str, fill: impl FnOnce(&mut Message)) {
    message.put_text(NAME, name);
    message.nest(DATA, fill);
}

fn data(message: &mut Message, kind: u16, bytes: &[u8]) {
    message.nest(kind, |message| message.put(VALUE, bytes));
}

/// Reads one word of a rule.
pub(super) fn read(bytes: &[u8]) -> Result<Expression, KernelError> {
    let word = Attributes::read(bytes)?;
    let name = word.text(NAME).unwrap_or_default();
    let attributes = word.within(DATA)?;
    let known = match name.as_str() {
        "meta" => read_meta(&attributes),
        "ct" => read_ct(&attributes),
        "payload" => read_payload(&attributes).or_else(|| maps::read(&attributes, REGISTER)),
        "immediate" => read_immediate(&attributes)?,
        "bitwise" => read_bitwise(&attributes)?,
        "cmp" => read_compare(&attributes)?,
        "lookup" => read_lookup(&attributes),
        "dynset" => tally::read(&attributes, REGISTER)?,
        "limit" => tally::read_limit(&attributes)
            .map(|(a_second, burst)| Expression::Often { a_second, burst }),
        "counter" => Some(Expression::Count),
        "notrack" => Some(Expression::Untracked),
        "nat" => read_nat(&attributes),
        "fib" => read_fib(&attributes),
        "reject" => verdicts::read_refusal(&attributes).map(Expression::Verdict),
        _ => None,
    };
    Ok(known.unwrap_or(Expression::Other(name)))
}

/// The chain that a word of a rule calls, if it calls one.
pub(super) fn jumps_to(bytes: &[u8]) -> Result<Option<String>, KernelError> {
    verdicts::jumps_to(&Attributes::read(bytes)?.within(DATA)?.within(IMMEDIATE_DATA)?)
}

fn is_ours(attributes: &Attributes<'_>, kind: u16) -> Option<()> {
    (attributes.be32(kind) == Some(REGISTER)).then_some(())
}

fn read_meta(attributes: &Attributes<'_>) -> Option<Expression> {
    is_ours(attributes, META_TO)?;
    match attributes.be32(META_KEY)? {
        MARK => Some(Expression::Mark),
        PROTOCOL => Some(Expression::Protocol),
        KIND => Some(Expression::Kind),
        INPUT_NAME => Some(Expression::InputName),
        OUTPUT_NAME => Some(Expression::OutputName),
        _ => None,
    }
}

fn read_ct(attributes: &Attributes<'_>) -> Option<Expression> {
    is_ours(attributes, CT_TO)?;
    match (attributes.be32(CT_KEY)?, attributes.of(CT_DIRECTION)) {
        (STATE, None) => Some(Expression::State),
        (STATUS, None) => Some(Expression::Status),
        (DIRECTION, None) => Some(Expression::Direction),
        (DESTINATION_IPV4, Some(REPLY)) => Some(Expression::ReplyDestination(Family::V4)),
        (DESTINATION_IPV6, Some(REPLY)) => Some(Expression::ReplyDestination(Family::V6)),
        _ => None,
    }
}

fn read_payload(attributes: &Attributes<'_>) -> Option<Expression> {
    is_ours(attributes, PAYLOAD_TO)?;
    let offset = attributes.be32(PAYLOAD_OFFSET)?;
    let bytes = attributes.be32(PAYLOAD_BYTES)?;
    match attributes.be32(PAYLOAD_BASE)? {
        FRAME_HEADER => Some(Expression::Frame { offset, bytes }),
        NETWORK_HEADER => Some(Expression::Header { offset, bytes }),
        TRANSPORT => Some(Expression::Transport { offset, bytes }),
        _ => None,
    }
}

fn read_immediate(attributes: &Attributes<'_>) -> Result<Option<Expression>, KernelError> {
    let data = attributes.within(IMMEDIATE_DATA)?;
    if attributes.be32(IMMEDIATE_TO) == Some(REGISTER) {
        return Ok(data.of(VALUE).map(|value| Expression::Value(value.to_vec())));
    }
    Ok(verdicts::read(&data)?.map(Expression::Verdict))
}

fn read_bitwise(attributes: &Attributes<'_>) -> Result<Option<Expression>, KernelError> {
    let (mask, xor) = (attributes.within(BITWISE_MASK)?, attributes.within(BITWISE_XOR)?);
    let is_mask = attributes.be32(BITWISE_KIND).unwrap_or(0) == 0
        && xor.of(VALUE).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
    let ours = is_ours(attributes, BITWISE_FROM).and(is_ours(attributes, BITWISE_TO));
    let mask = mask.of(VALUE).filter(|_| is_mask && ours.is_some());
    Ok(mask.map(|mask| Expression::Mask(mask.to_vec())))
}

fn read_compare(attributes: &Attributes<'_>) -> Result<Option<Expression>, KernelError> {
    let data = attributes.within(COMPARE_DATA)?;
    let value = data.of(VALUE).filter(|_| is_ours(attributes, COMPARE_FROM).is_some());
    Ok(value.and_then(|value| match attributes.be32(COMPARE_KIND)? {
        EQUAL => Some(Expression::Is(value.to_vec())),
        DIFFERENT => Some(Expression::IsNot(value.to_vec())),
        _ => None,
    }))
}

fn read_lookup(attributes: &Attributes<'_>) -> Option<Expression> {
    is_ours(attributes, LOOKUP_FROM)?;
    let set = attributes.text(LOOKUP_SET)?;
    match (attributes.be32(LOOKUP_TO), attributes.be32(LOOKUP_FLAGS).unwrap_or(0)) {
        (None, 0) => Some(Expression::In(set)),
        (None, IS_NOT_IN) => Some(Expression::NotIn(set)),
        (Some(REGISTER), 0) => Some(Expression::ByMap(set)),
        _ => None,
    }
}

fn read_nat(attributes: &Attributes<'_>) -> Option<Expression> {
    is_ours(attributes, NAT_LEAST)?;
    let number = attributes.be32(NAT_FAMILY)?;
    let family = Family::ALL.into_iter().find(|family| protocol(*family) == number)?;
    let is_plain = attributes.be32(NAT_KIND)? == SNAT
        && attributes.be32(NAT_MOST).unwrap_or(REGISTER) == REGISTER
        && attributes.be32(NAT_FLAGS).unwrap_or(GIVES_ADDRESS) == GIVES_ADDRESS
        && !attributes.has_others(&[NAT_KIND, NAT_FAMILY, NAT_LEAST, NAT_MOST, NAT_FLAGS]);
    is_plain.then_some(Expression::Snat(family))
}

fn read_fib(attributes: &Attributes<'_>) -> Option<Expression> {
    is_ours(attributes, FIB_TO)?;
    let what = (attributes.be32(FIB_RESULT)?, attributes.be32(FIB_FLAGS)?);
    (what == (DEVICE, OF_SOURCE_BY_INPUT_IS_THERE)).then_some(Expression::LeadsBack)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercato_machine::{Bound, Rewritten};

    #[test]
    fn each_word_is_read_as_it_was_written() {
        let words = [
            Expression::InputName,
            Expression::OutputName,
            Expression::Mark,
            Expression::Protocol,
            Expression::Kind,
            Expression::Frame { offset: 6, bytes: 6 },
            Expression::State,
            Expression::Status,
            Expression::Over("connections".to_owned(), Bound::Connections(4_096)),
            Expression::Over(
                "beginnings".to_owned(),
                Bound::Packets { a_second: 256, burst: 4_096 },
            ),
            Expression::Direction,
            Expression::ReplyDestination(Family::V4),
            Expression::ReplyDestination(Family::V6),
            Expression::LeadsBack,
            Expression::Header { offset: 12, bytes: 4 },
            Expression::Value(vec![10, 200, 0, 1]),
            Expression::Mask(vec![255, 248, 0, 0]),
            Expression::Is(vec![10, 200, 0, 0]),
            Expression::IsNot(vec![0; 16]),
            Expression::Transport { offset: 2, bytes: 2 },
            Expression::In("pods".to_owned()),
            Expression::NotIn("nodes".to_owned()),
            Expression::ByMap("here".to_owned()),
            Expression::Count,
            Expression::Snat(Family::V6),
            Expression::Verdict(Verdict::Accept),
            Expression::Verdict(Verdict::Drop),
            Expression::Verdict(Verdict::Goto("from_device".to_owned())),
            Expression::Often { a_second: 64, burst: 256 },
            Expression::Other("quota".to_owned()),
        ];
        for word in words.into_iter().chain(Rewritten::ALL.map(Expression::Write)) {
            let mut message = Message::new(0, 0, &[]);
            write(&mut message, &word);
            let bytes = message.numbered(1);
            assert_eq!(read(&bytes[super::super::message::HEADER_BYTES..]).unwrap(), word);
        }
    }
}
