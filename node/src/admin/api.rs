//! Where requests are answered.

#![allow(clippy::wildcard_enum_match_arm, reason = "every other answer is a wrong one")]

use futures::future::BoxFuture;
use mercato_agent::{Joined, Listed};
use mercato_broker::{Demand, Market, Statement};
use mercato_protocol::id::{ContractId, FederationId};

use super::deal::Deal;
use super::event::Event;
use super::offload::{Leaving, Offload};
use super::status::Status;
use super::types::{Announced, Answer, Peer, Pong, Provider, Request, Share};
use super::{Class, Problem};
use crate::doctor::Finding;

/// Answers the owner: the driver, which holds the agent, or a client of one.
pub(crate) trait OperatorApi: Send + Sync {
    /// Does it, or says why not.
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>>;

    /// The same for whoever asks by a clock: nothing is begun that may ask a person for a login.
    fn ask_quietly(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        self.ask(request)
    }
}

/// Asks that have one form of answer, by that form.
macro_rules! typed {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $of:ty),*) -> $answer:ty: $request:expr => $variant:ident;)*) => {
        impl dyn OperatorApi + '_ {
            $($(#[$doc])* pub(crate) async fn $name(&self, $($arg: $of),*) -> Result<$answer, Problem> {
                match self.ask($request).await? {
                    Answer::$variant(answer) => Ok(answer),
                    other => Err(unexpected(&other)),
                }
            })*
        }
    };
}

typed! {
    /// Who this is, and how it is.
    status() -> Status: Request::Status => Status;
    /// The clusters and addresses that are known.
    peers() -> Vec<Peer>: Request::Peers => Peers;
    /// Who answers at this address, if anybody.
    ping(address: String) -> Pong: Request::Ping(address) => Pong;
    /// The offers that suit this demand.
    browse(demand: Demand, explain: bool) -> Market: Request::Browse { demand, explain } => Offers;
    /// The clusters that offer something now.
    providers() -> Vec<Provider>: Request::Providers => Providers;
    /// Lets a namespace's pods leave home, and says what becomes of them.
    offload(offload: Offload) -> Leaving: Request::Offload(offload) => Leaving;
    /// What this cluster shares, and has on sale.
    share() -> Share: Request::Share => Share;
    /// Orders, requests and contracts on both sides.
    deals() -> Vec<Deal>: Request::Deals => Deals;
    /// What is billed so far.
    statement(id: ContractId) -> Statement: Request::Statement(id) => Statement;
    /// What stands in the way, or may.
    doctor() -> Vec<Finding>: Request::Doctor => Findings;
    /// The whole state, in base64.
    export() -> String: Request::Export => State;
    /// The federations that this cluster goes by.
    federations() -> Vec<Joined>: Request::Federations => Federations;
    /// The federation that a domain announces.
    lookup(domain: String) -> Announced: Request::Lookup(domain) => Announced;
    /// The members of a federation, as far as they are known.
    members(federation: FederationId) -> Vec<Listed>: Request::Members(federation) => Members;
    /// What happened after the event of this number.
    events(after: u64) -> Vec<Event>: Request::Events(after) => Events;
}

impl dyn OperatorApi + '_ {
    /// What is done, or not.
    pub(crate) async fn tell(&self, request: Request) -> Result<(), Problem> {
        match self.ask(request).await? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }
}

/// The daemon is of another release.
pub(crate) fn unexpected(answer: &impl std::fmt::Debug) -> Problem {
    let mut problem =
        Problem::new(Class::Failed, "the daemon answered something else than was asked")
            .todo("run the daemon and the command from the same release: mercato --version");
    problem.causes.push(format!("{answer:?}"));
    problem
}
