//! What the other side says, in front of whatever it does: the table of words decides whether it is
//! taken. What comes of it then is in `consumer` and `provider`.

use mercato_protocol::codec::CodecError;
use mercato_protocol::envelope::Verified;
use mercato_protocol::negotiation::Message;

use super::Phase;
use crate::deal::exchange::Exchange;
use crate::deal::order::Side;
use crate::deal::words::{Fate, Otherwise, fate};

/// The other side of a deal says something.
pub(crate) fn hear(
    phase: &mut Phase,
    exchange: &mut Exchange<'_, '_>,
    message: &Verified<Message>,
) -> Result<(), CodecError> {
    let by = exchange.side().other();
    match (fate(by, &message.body, phase.state()), by) {
        (Fate::Taken, Side::Consumer) => phase.on_consumer(exchange, message),
        (Fate::Taken, Side::Provider) => phase.on_provider(exchange, message),
        (Fate::Not(Otherwise::Ignored | Otherwise::Refused), _) => Ok(()),
        (Fate::Not(Otherwise::Answered), _) => exchange.send(phase.outcome()),
        (Fate::Not(Otherwise::Conflict), _) => match exchange.order().is_asked_by(&message.body) {
            true => Ok(()),
            false => phase.on_conflict(exchange),
        },
    }
}
