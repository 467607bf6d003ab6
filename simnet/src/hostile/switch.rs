//! A seller whose contract is not what it offered.

use mercato_agent::Effect;
use mercato_protocol::envelope::{Signed, Signers, Trust};
use mercato_protocol::negotiation::{Body, Message};
use mercato_protocol::price::Price;

use super::{Attack, Scene};

/// Signs each contract at a hundred times the price that it offered.
#[derive(Debug)]
pub(crate) struct BaitAndSwitch;

impl BaitAndSwitch {
    fn switched(scene: &Scene<'_>, message: &Signed<Message>) -> Option<Signed<Message>> {
        let config = scene.config;
        let known = [(config.key.public(), config.cluster())].into();
        let trust = Trust { federation: config.federation, signers: Signers::Known(&known) };
        let mut message = message.open(trust, scene.now).ok()?.into_value();
        let Body::Agreement { contract } = &message.body else { return None };
        let mut contract = contract.open(trust, scene.now).ok()?.into_value();
        if let Price::Posted { units, .. } = &mut contract.terms.price {
            units.values_mut().for_each(|unit| unit.micros = unit.micros.saturating_mul(100));
        }
        let contract = config.key.sign(config.federation, &contract).ok()?;
        message.body = Body::Agreement { contract };
        config.key.sign(config.federation, &message).ok()
    }
}

impl Attack for BaitAndSwitch {
    fn pass(&mut self, scene: &mut Scene<'_>, effect: Effect) -> Vec<Effect> {
        if let Effect::Negotiation { peer, message, once } = &effect
            && let Some(message) = Self::switched(scene, message)
        {
            scene.tried += 1;
            return vec![Effect::Negotiation { peer: *peer, message, once: *once }];
        }
        vec![effect]
    }
}
