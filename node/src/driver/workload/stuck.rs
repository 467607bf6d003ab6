//! What people are told of a lease under which one side does not take what the other says.

use mercato_agent::LeaseDesire;
use mercato_broker::Side;
use mercato_protocol::id::ContractId;

use crate::admin::{Attention, AttentionKind, Event, EventKind, EventPeer};
use crate::doctor::Finding;
use crate::driver::Driver;
use crate::kubernetes::LeaseHandle;
use crate::present::text::called;

/// The event that a message of the other side's came again and was not taken here.
pub(super) fn receiver(driver: &Driver, contract: &ContractId) -> Option<Event> {
    let lease = driver.lease(contract)?;
    let why = lease.allowance().stuck()?;
    let desire = lease.desire();
    Some(event(&desire, text(&desire, Some(&why))))
}

/// The event that the other side does not take what it is told, where that is new.
pub(in crate::driver) fn sender(before: &LeaseDesire, now: &LeaseDesire) -> Option<Event> {
    (now.stuck && !before.stuck).then(|| event(now, text(now, None)))
}

/// That a lease is stuck, for whoever asks how the daemon is.
pub(in crate::driver) fn attention(lease: &LeaseHandle) -> Option<Attention> {
    let (desire, why) = (lease.desire(), lease.allowance().stuck());
    if !desire.stuck && why.is_none() {
        return None;
    }
    let contract = desire.contract.id;
    Some(Attention {
        peer: Some(peer(&desire)),
        side: Some(desire.side),
        order: Some(contract.into()),
        contract: Some(contract),
        ..Attention::of(AttentionKind::LeaseStuck, text(&desire, why.as_deref()))
            .command(format!("mercato contracts cancel {}", contract.short()))
    })
}

/// The same for `mercato doctor`.
pub(in crate::driver) fn finding(lease: &LeaseHandle) -> Option<Finding> {
    let Attention { text, commands, .. } = attention(lease)?;
    let finding = Finding::fail("lease", text)
        .todo("run the same release of Mercato on both sides: docs/versions.md");
    Some(
        commands.into_iter().fold(finding, |finding, command| {
            finding.todo(format!("or end the contract: {command}"))
        }),
    )
}

fn event(desire: &LeaseDesire, text: String) -> Event {
    let contract = Some(desire.contract.id);
    Event { peer: Some(peer(desire)), contract, ..Event::of(EventKind::LeaseStuck, text) }
}

fn peer(desire: &LeaseDesire) -> EventPeer {
    let id = match desire.side {
        Side::Consumer => desire.contract.provider.cluster,
        Side::Provider => desire.contract.consumer.cluster,
    };
    EventPeer { id, name: desire.peer_name.clone() }
}

/// `why`: the reason for which this side does not take what the other says.
fn text(desire: &LeaseDesire, why: Option<&str>) -> String {
    let EventPeer { id, name } = peer(desire);
    let (who, short) = (called(name.as_deref(), &id), desire.contract.id.short());
    match why {
        Some(why) => format!(
            "{short}: {who} says something again and again that is not understood here ({why}): \
             nothing more of the contract comes through"
        ),
        None => format!(
            "{short}: {who} does not take what it is told, again and again: nothing more of the \
             contract comes through"
        ),
    }
}
