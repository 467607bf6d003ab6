//! What a peer said of the tunnel, its signature opened and its cluster compared: the one way by
//! which it comes into an exchange.

use std::collections::BTreeMap;

use mercato_protocol::envelope::{Signed, Signers, Trust, Verified};
use mercato_protocol::id::{ClusterId, Digest, FederationId, PublicKey};
use mercato_protocol::time::Now;
use mercato_protocol::tunnel::{Answer, Ask, Gateways, PairSecret, RefusedReason};

/// What a peer asks, with a list that is its own.
#[derive(Debug)]
pub(crate) enum Said {
    Introduce { gateways: Verified<Gateways>, secret_hash: Option<Digest> },
    Secret { secret: PairSecret, replaces: Option<Digest> },
}

/// What a peer answers, with a list that is its own.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    Introduced { gateways: Verified<Gateways>, secret_hash: Option<Digest> },
    Holds { secret_hash: Option<Digest> },
    Superseded { issued_ms: u64 },
    Refused { text: String },
}

/// Who speaks: a cluster, and the keys that stand for it now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speaker<'a> {
    pub(crate) cluster: ClusterId,
    pub(crate) keys: &'a BTreeMap<PublicKey, ClusterId>,
}

impl Speaker<'_> {
    /// What it asks; or the refusal that answers it.
    pub(crate) fn asks(self, ask: Ask, now: Now) -> Result<Said, Answer> {
        match ask {
            Ask::Introduce { gateways, secret_hash } => match self.list(&gateways, now) {
                Ok(gateways) => Ok(Said::Introduce { gateways, secret_hash }),
                Err(text) => Err(Answer::Refused { reason: RefusedReason::Invalid, text }),
            },
            Ask::Secret { secret, replaces } => Ok(Said::Secret { secret, replaces }),
        }
    }

    /// What it answers; or why that is none.
    pub(crate) fn answers(self, answer: Answer, now: Now) -> Result<Heard, String> {
        Ok(match answer {
            Answer::Introduced { gateways, secret_hash } => {
                Heard::Introduced { gateways: self.list(&gateways, now)?, secret_hash }
            }
            Answer::Holds { secret_hash } => Heard::Holds { secret_hash },
            Answer::Superseded { issued_ms } => Heard::Superseded { issued_ms },
            Answer::Refused { text, .. } => Heard::Refused { text },
        })
    }

    fn list(self, gateways: &Signed<Gateways>, now: Now) -> Result<Verified<Gateways>, String> {
        let trust = Trust { federation: FederationId::NONE, signers: Signers::Known(self.keys) };
        let opened = gateways.open(trust, now);
        let opened =
            opened.map_err(|error| format!("the list of gateways is not taken: {error}"))?;
        match opened.cluster == self.cluster {
            true => Ok(opened),
            false => Err(format!(
                "the list of gateways is of cluster {:.8}, and {:.8} says it",
                opened.cluster, self.cluster
            )),
        }
    }
}
