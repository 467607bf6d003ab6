//! What a user may do at a virtual node: SubjectAccessReviews on the node's subresources, the
//! narrow one before `nodes/proxy`, as the kubelet of 1.35 asks them. Which right a
//! request needs is for `target` to say, from the same value that is then served.

use std::sync::{Arc, Mutex, PoisonError};

use super::target::Right;
use super::user::User;
use crate::apiserver::callers::Caller;
use crate::apiserver::cluster::Cluster;
use crate::apiserver::failure::Failure;
use crate::apiserver::reviews::{Action, Holder, Reviews};
use crate::limits;
use crate::repeated::Repeated;
use crate::warn_once;

/// Who may do what at one virtual node.
pub struct Access {
    reviews: Reviews,
    node: String,
    /// Why the API server did not judge.
    failing: Mutex<Repeated>,
}

/// What became of a request's credentials.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// 401: the credentials are of nobody whom the API server knows.
    Unknown,
    /// 403, and for the log who and what.
    Denied(String),
    /// 429: too many requests of its network wait to be judged, or its user or network has too
    /// many connections.
    Busy,
}

impl Access {
    /// Asks `cluster` about the node of this name.
    pub fn new(cluster: &Cluster, node: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            reviews: Reviews::new(cluster, limits::REVIEW_TTL),
            node: node.into(),
            failing: Mutex::default(),
        })
    }

    /// Judges one request. A failure is the API server's: nobody is let in.
    pub(super) async fn judge(
        &self,
        certified: Option<User>,
        token: Option<&str>,
        caller: &Caller,
        right: Right,
    ) -> Result<Verdict, Failure> {
        let verdict = self.ask(certified, token, caller, right).await;
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match &verdict {
            Ok(_) => {
                failing.is_over();
            }
            Err(why) => warn_once!(failing, why; "a request to a kubelet API could not be judged"),
        }
        drop(failing);
        verdict
    }

    async fn ask(
        &self,
        certified: Option<User>,
        token: Option<&str>,
        caller: &Caller,
        right: Right,
    ) -> Result<Verdict, Failure> {
        let (user, leave) = match self.reviews.holder(certified, token, caller).await? {
            Holder::Known(user, leave) => (user, leave),
            Holder::Unknown => return Ok(Verdict::Unknown),
            Holder::Busy => return Ok(Verdict::Busy),
        };
        let Right { verb, subresources } = right;
        for subresource in subresources {
            if self.may(&user, verb, subresource).await? {
                drop(leave);
                let has_place = caller.is_allowed(&user.name);
                return Ok(if has_place { Verdict::Allowed } else { Verdict::Busy });
            }
        }
        Ok(Verdict::Denied(format!(
            "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)={subresources:?})",
            user.name,
        )))
    }

    async fn may(
        &self,
        user: &User,
        verb: &'static str,
        subresource: &'static str,
    ) -> Result<bool, Failure> {
        let action = Action {
            verb,
            version: "v1",
            resource: "nodes",
            subresource,
            name: self.node.clone(),
            ..Action::default()
        };
        self.reviews.may(user, &action).await
    }
}
