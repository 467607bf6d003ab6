//! What is asked of the agent about federations, and what it answers.

use mercato_protocol::certificate::RevocationList;
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::join::{JoinRefusal, JoinReply, JoinRequest, JoinToken, Secret};
use mercato_protocol::limits::FEDERATIONS;
use thiserror::Error;

use crate::federation::issued::Grant;
use crate::federation::papers::Papers;

/// What is asked of the agent about federations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Go by these papers: as a member, if they have a certificate.
    Enter(Box<Papers>),
    /// Join by a token, at the registrar that it names.
    Join(Box<JoinToken>),
    /// Go by that federation's certificates no longer.
    Leave(FederationId),
    /// Registrar: let one cluster join that says this secret.
    Token {
        /// The federation that it lets a cluster join.
        federation: FederationId,
        /// The random secret by which the token is known again.
        secret: Secret,
        /// What the token grants whoever comes with it.
        grant: Grant,
        /// Where this cluster can be dialled: multiaddresses.
        addresses: Vec<String>,
    },
    /// Registrar: a peer wants to join, or to renew.
    Admit {
        /// Whose key the connection has proven.
        peer: PublicKey,
        /// The request, as the peer sent it.
        request: Box<JoinRequest>,
    },
    /// Registrar: a cluster is to belong no longer.
    Revoke(FederationId, ClusterId),
    /// Go by this list, which the root has signed, and let others hear it.
    Publish(FederationId, Signed<RevocationList>),
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What was asked for is done.
    Done,
    /// Hand this to one who may join.
    Token(JoinToken),
    /// For the peer that wants to join.
    Join(Box<JoinReply>),
    /// What was asked for is not done, and why.
    Refused(FederationRefusal),
}

/// Why an [`Ask`] is refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FederationRefusal {
    /// The papers are not this cluster's, or do not hold.
    #[error("these papers do not make this cluster a member")]
    Papers,
    /// What would have to be remembered is above the bound of one record.
    #[error("it cannot be kept: a record of {0} bytes is too large")]
    TooLarge(usize),
    /// Its daemon has gone back to its records meanwhile, since something could not be kept.
    #[error("this daemon had to go back to its records, and does not know what came of it")]
    Interrupted,
    /// The records cannot be written.
    #[error("read-only: cannot write to the data folder; federations stay as they are")]
    Degraded,
    /// It is not known here.
    #[error("this cluster did not join that federation")]
    Unknown,
    /// More than one can show the certificates of.
    #[error("a cluster joins at most {FEDERATIONS} federations")]
    TooMany,
    /// It has no registrar's certificate.
    #[error("this cluster is no registrar of that federation")]
    NoRegistrar,
    /// It has one, and would forget whom it let in.
    #[error("this cluster is a registrar of that federation, and others renew with it")]
    Registrar,
    /// Too many tokens wait to be used.
    #[error("no more tokens can be handed out now")]
    NoToken,
    /// None of the roles is the registrar's to give.
    #[error("this registrar can give none of these roles")]
    NoRole,
    /// Its own certificate does not say so.
    #[error("this registrar cannot vouch for that attribute: its own certificate does not have it")]
    NotVouched,
    /// It was never let in here.
    #[error("this registrar did not let that cluster in")]
    NoMember,
    /// The registrar was asked, and refuses.
    #[error("the registrar refuses: {0}")]
    Join(JoinRefusal),
    /// The registrar was asked, and does not answer.
    #[error("the registrar does not answer")]
    Unanswered,
}
