//! Sets that packets fill, and the word of a rule that counts in one (linux/netfilter/nf_tables.h). We
//! make two kinds: connections that there are, and packets of a second.

use super::message::{Attributes, Message};
use crate::error::KernelError;
use mercato_machine::{Bound, Expression, Tally};

// Of sets, and what they may be (`NFT_SET_...`): filled by packets, and with a time for members.
const SET_DESCRIPTION: u16 = 9;
const SET_TIMEOUT: u16 = 11;
const DESCRIPTION_SIZE: u16 = 1;
const EVALUATED: u32 = 0x20;
const TIMED: u32 = 0x10;
// Of `dynset`: to add somebody, and to do so anew with each packet.
const SET: u16 = 1;
const OPERATION: u16 = 3;
const KEY_FROM: u16 = 4;
const TIMEOUT: u16 = 6;
const EXPRESSION: u16 = 7;
const PAD: u16 = 8;
const FLAGS: u16 = 9;
const ADD: u32 = 0;
const UPDATE: u32 = 1;
// Of any word.
const NAME: u16 = 1;
const DATA: u16 = 2;
// Of `connlimit`.
const CONNECTIONS: u16 = 1;
const CONNECTIONS_FLAGS: u16 = 2;
// Of `limit`.
const RATE: u16 = 1;
const UNIT: u16 = 2;
const BURST: u16 = 3;
const KIND: u16 = 4;
const LIMIT_FLAGS: u16 = 5;
const A_SECOND: u64 = 1;
const OF_PACKETS: u32 = 0;
/// It is met by what is more than the bound, in either.
const OVER: u32 = 1;

/// What a set is that is one, by its flags.
pub(super) fn flags(tally: &Tally) -> u32 {
    if tally.quiet_ms.is_some() { EVALUATED | TIMED } else { EVALUATED }
}

/// Writes what such a set has besides a name, flags and a key.
pub(super) fn write_set(message: &mut Message, tally: &Tally) {
    message.nest(SET_DESCRIPTION, |message| message.put_be32(DESCRIPTION_SIZE, tally.most));
    if let Some(quiet_ms) = tally.quiet_ms {
        message.put_be64(SET_TIMEOUT, quiet_ms);
    }
}

/// What is counted in a set with these flags, if it is such a set.
pub(super) fn read_set(set: &Attributes<'_>, flags: u32) -> Result<Option<Tally>, KernelError> {
    let most = set.within(SET_DESCRIPTION)?.be32(DESCRIPTION_SIZE).unwrap_or(0);
    let tally = Tally { most, quiet_ms: set.be64(SET_TIMEOUT) };
    Ok(Some(tally).filter(|tally| self::flags(tally) == flags))
}

/// Writes the attributes of a word that counts for the address in this register.
pub(super) fn write(message: &mut Message, register: u32, tally: &str, bound: &Bound) {
    message.put_text(SET, tally);
    message.put_be32(OPERATION, operation(bound));
    message.put_be32(KEY_FROM, register);
    message.nest(EXPRESSION, |message| match bound {
        Bound::Connections(most) => {
            message.put_text(NAME, "connlimit");
            message.nest(DATA, |message| {
                message.put_be32(CONNECTIONS, *most);
                message.put_be32(CONNECTIONS_FLAGS, OVER);
            });
        }
        Bound::Packets { a_second, burst } => {
            message.put_text(NAME, "limit");
            message.nest(DATA, |message| write_limit(message, *a_second, *burst));
        }
    });
}

/// Writes the attributes of a bound of packets.
pub(super) fn write_limit(message: &mut Message, a_second: u32, burst: u32) {
    message.put_be64(RATE, u64::from(a_second));
    message.put_be64(UNIT, A_SECOND);
    message.put_be32(BURST, burst);
    message.put_be32(KIND, OF_PACKETS);
    message.put_be32(LIMIT_FLAGS, OVER);
}

/// Reads them; none: it is another word than we write.
pub(super) fn read(
    word: &Attributes<'_>,
    register: u32,
) -> Result<Option<Expression>, KernelError> {
    let inner = word.within(EXPRESSION)?;
    let name = inner.text(NAME).unwrap_or_default();
    let data = inner.within(DATA)?;
    let bound = match name.as_str() {
        "connlimit" => read_connections(&data),
        "limit" => read_limit(&data).map(|(a_second, burst)| Bound::Packets { a_second, burst }),
        _ => None,
    };
    let plain = [SET, OPERATION, KEY_FROM, TIMEOUT, EXPRESSION, PAD, FLAGS];
    let is_plain = word.be32(KEY_FROM) == Some(register)
        && word.be64(TIMEOUT).unwrap_or(0) == 0
        && word.be32(FLAGS).unwrap_or(0) == 0
        && !word.has_others(&plain);
    let bound = bound.filter(|bound| is_plain && word.be32(OPERATION) == Some(operation(bound)));
    Ok(bound.and_then(|bound| Some(Expression::Over(word.text(SET)?, bound))))
}

fn read_connections(data: &Attributes<'_>) -> Option<Bound> {
    let most = data.be32(CONNECTIONS)?;
    (data.be32(CONNECTIONS_FLAGS) == Some(OVER)).then_some(Bound::Connections(most))
}

/// How many in a second, and how many at once.
pub(super) fn read_limit(data: &Attributes<'_>) -> Option<(u32, u32)> {
    let a_second = u32::try_from(data.be64(RATE)?).ok()?;
    let burst = data.be32(BURST)?;
    let rest = (data.be64(UNIT)?, data.be32(KIND)?, data.be32(LIMIT_FLAGS)?);
    (rest == (A_SECOND, OF_PACKETS, OVER)).then_some((a_second, burst))
}

/// Whose packets are counted is known for a while after the last; who has connections, until the
/// last is over.
fn operation(bound: &Bound) -> u32 {
    match bound {
        Bound::Connections(_) => ADD,
        Bound::Packets { .. } => UPDATE,
    }
}
