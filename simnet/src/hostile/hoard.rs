//! Buyers that take and do not keep their side.

use mercato_agent::Effect;
use mercato_broker::{Command, Demand};
use mercato_protocol::envelope::{Signed, Signers, Trust};
use mercato_protocol::negotiation::{Body, Message};
use mercato_protocol::resources::Resources;

use super::{Attack, Scene};

/// What its own agent says in a negotiation.
fn said(scene: &Scene<'_>, message: &Signed<Message>) -> Option<Body> {
    let known = [(scene.config.key.public(), scene.config.cluster())].into();
    let trust = Trust { federation: scene.config.federation, signers: Signers::Known(&known) };
    message.open(trust, scene.now).ok().map(|message| message.into_value().body)
}

/// Orders again and again, and never signs what comes of it.
#[derive(Debug)]
pub(crate) struct Hoarder;

impl Attack for Hoarder {
    fn pass(&mut self, scene: &mut Scene<'_>, effect: Effect) -> Vec<Effect> {
        if let Effect::Negotiation { message, .. } = &effect
            && matches!(
                said(scene, message),
                Some(Body::Verification { .. } | Body::Terminate { .. })
            )
        {
            return Vec::new();
        }
        vec![effect]
    }

    fn act(&mut self, scene: &mut Scene<'_>) {
        let gpus = Default::default();
        let quantity =
            Resources { cpu_millis: 1_000, memory_bytes: 1 << 30, pods: 1, storage_bytes: 0, gpus };
        let demand = Demand { quantity, term_s: 3_600, ..Demand::default() };
        scene.tried += 1;
        scene.asks.push(Command::Order { demand, note: String::new(), id: None });
    }
}

/// A buyer that signs no receipt.
#[derive(Debug)]
pub(crate) struct NonSigner;

impl Attack for NonSigner {
    fn pass(&mut self, scene: &mut Scene<'_>, effect: Effect) -> Vec<Effect> {
        if let Effect::Negotiation { message, .. } = &effect
            && matches!(said(scene, message), Some(Body::UsageReceipt { .. }))
        {
            scene.tried += 1;
            return Vec::new();
        }
        vec![effect]
    }
}
