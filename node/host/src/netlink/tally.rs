//! Sets that packets fill, and the word of a rule that counts in one (linux/netfilter/nf_tables.h). We
//! make two kinds: connections that there are, and packets of a second.

use super::message::{Attributes, Message};
use crate::error::KernelError;
use mercato_machine::{Bound, Expression, Tally};

// Of sets, and what they may be (`NFT_SET_...`): filled by packets, and with a time for members.
const NFTA_SET_DESC: u16 = 9;
const NFTA_SET_TIMEOUT: u16 = 11;
const NFTA_SET_DESC_SIZE: u16 = 1;
const NFT_SET_EVAL: u32 = 0x20;
const NFT_SET_TIMEOUT: u32 = 0x10;
// Of `dynset`: to add somebody, and to do so anew with each packet.
const NFTA_DYNSET_SET_NAME: u16 = 1;
const NFTA_DYNSET_OP: u16 = 3;
const NFTA_DYNSET_SREG_KEY: u16 = 4;
const NFTA_DYNSET_TIMEOUT: u16 = 6;
const NFTA_DYNSET_EXPR: u16 = 7;
const NFTA_DYNSET_PAD: u16 = 8;
const NFTA_DYNSET_FLAGS: u16 = 9;
const NFT_DYNSET_OP_ADD: u32 = 0;
const NFT_DYNSET_OP_UPDATE: u32 = 1;
// Of any word.
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
// Of `connlimit`.
const NFTA_CONNLIMIT_COUNT: u16 = 1;
const NFTA_CONNLIMIT_FLAGS: u16 = 2;
// Of `limit`.
const NFTA_LIMIT_RATE: u16 = 1;
const NFTA_LIMIT_UNIT: u16 = 2;
const NFTA_LIMIT_BURST: u16 = 3;
const NFTA_LIMIT_TYPE: u16 = 4;
const NFTA_LIMIT_FLAGS: u16 = 5;
const SECOND: u64 = 1;
const NFT_LIMIT_PKTS: u32 = 0;
/// It is met by what is more than the bound, in either.
const NFT_LIMIT_F_INV: u32 = 1;
const NFT_CONNLIMIT_F_INV: u32 = 1;

/// What a set is that is one, by its flags.
pub(super) fn flags(tally: &Tally) -> u32 {
    if tally.quiet_ms.is_some() { NFT_SET_EVAL | NFT_SET_TIMEOUT } else { NFT_SET_EVAL }
}

/// Writes what such a set has besides a name, flags and a key.
pub(super) fn write_set(message: &mut Message, tally: &Tally) {
    message.nest(NFTA_SET_DESC, |message| message.put_be32(NFTA_SET_DESC_SIZE, tally.most));
    if let Some(quiet_ms) = tally.quiet_ms {
        message.put_be64(NFTA_SET_TIMEOUT, quiet_ms);
    }
}

/// What is counted in a set with these flags, if it is such a set.
pub(super) fn read_set(set: &Attributes<'_>, flags: u32) -> Result<Option<Tally>, KernelError> {
    let most = set.within(NFTA_SET_DESC)?.be32(NFTA_SET_DESC_SIZE).unwrap_or(0);
    let tally = Tally { most, quiet_ms: set.be64(NFTA_SET_TIMEOUT) };
    Ok(Some(tally).filter(|tally| self::flags(tally) == flags))
}

/// Writes the attributes of a word that counts for the address in this register.
pub(super) fn write(message: &mut Message, register: u32, tally: &str, bound: &Bound) {
    message.put_text(NFTA_DYNSET_SET_NAME, tally);
    message.put_be32(NFTA_DYNSET_OP, operation(bound));
    message.put_be32(NFTA_DYNSET_SREG_KEY, register);
    message.nest(NFTA_DYNSET_EXPR, |message| match bound {
        Bound::Connlimit(most) => {
            message.put_text(NFTA_EXPR_NAME, "connlimit");
            message.nest(NFTA_EXPR_DATA, |message| {
                message.put_be32(NFTA_CONNLIMIT_COUNT, *most);
                message.put_be32(NFTA_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
            });
        }
        Bound::Limit { rate, burst } => {
            message.put_text(NFTA_EXPR_NAME, "limit");
            message.nest(NFTA_EXPR_DATA, |message| write_limit(message, *rate, *burst));
        }
    });
}

/// Writes the attributes of a bound of packets.
pub(super) fn write_limit(message: &mut Message, rate: u32, burst: u32) {
    message.put_be64(NFTA_LIMIT_RATE, u64::from(rate));
    message.put_be64(NFTA_LIMIT_UNIT, SECOND);
    message.put_be32(NFTA_LIMIT_BURST, burst);
    message.put_be32(NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
    message.put_be32(NFTA_LIMIT_FLAGS, NFT_LIMIT_F_INV);
}

/// Reads them; none: it is another word than we write.
pub(super) fn read(
    word: &Attributes<'_>,
    register: u32,
) -> Result<Option<Expression>, KernelError> {
    let inner = word.within(NFTA_DYNSET_EXPR)?;
    let name = inner.text(NFTA_EXPR_NAME).unwrap_or_default();
    let data = inner.within(NFTA_EXPR_DATA)?;
    let bound = match name.as_str() {
        "connlimit" => read_connections(&data),
        "limit" => read_limit(&data).map(|(rate, burst)| Bound::Limit { rate, burst }),
        _ => None,
    };
    let plain = [
        NFTA_DYNSET_SET_NAME,
        NFTA_DYNSET_OP,
        NFTA_DYNSET_SREG_KEY,
        NFTA_DYNSET_TIMEOUT,
        NFTA_DYNSET_EXPR,
        NFTA_DYNSET_PAD,
        NFTA_DYNSET_FLAGS,
    ];
    let is_plain = word.be32(NFTA_DYNSET_SREG_KEY) == Some(register)
        && word.be64(NFTA_DYNSET_TIMEOUT).unwrap_or(0) == 0
        && word.be32(NFTA_DYNSET_FLAGS).unwrap_or(0) == 0
        && !word.has_others(&plain);
    let bound =
        bound.filter(|bound| is_plain && word.be32(NFTA_DYNSET_OP) == Some(operation(bound)));
    Ok(bound.and_then(|bound| Some(Expression::Dynset(word.text(NFTA_DYNSET_SET_NAME)?, bound))))
}

fn read_connections(data: &Attributes<'_>) -> Option<Bound> {
    let most = data.be32(NFTA_CONNLIMIT_COUNT)?;
    (data.be32(NFTA_CONNLIMIT_FLAGS) == Some(NFT_CONNLIMIT_F_INV)).then_some(Bound::Connlimit(most))
}

/// How many in a second, and how many at once.
pub(super) fn read_limit(data: &Attributes<'_>) -> Option<(u32, u32)> {
    let rate = u32::try_from(data.be64(NFTA_LIMIT_RATE)?).ok()?;
    let burst = data.be32(NFTA_LIMIT_BURST)?;
    let rest =
        (data.be64(NFTA_LIMIT_UNIT)?, data.be32(NFTA_LIMIT_TYPE)?, data.be32(NFTA_LIMIT_FLAGS)?);
    (rest == (SECOND, NFT_LIMIT_PKTS, NFT_LIMIT_F_INV)).then_some((rate, burst))
}

/// Whose packets are counted is known for a while after the last; who has connections, until the
/// last is over.
fn operation(bound: &Bound) -> u32 {
    match bound {
        Bound::Connlimit(_) => NFT_DYNSET_OP_ADD,
        Bound::Limit { .. } => NFT_DYNSET_OP_UPDATE,
    }
}
