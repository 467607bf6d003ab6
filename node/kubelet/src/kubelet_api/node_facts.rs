//! What the provider says of the nodes on which guests of a lease run.

use mercato_protocol::codec::Message as _;
use mercato_protocol::id::ContractId;
use mercato_protocol::kubelet_stream::{Ask, NodeFacts, RefusedReason};
use mercato_protocol::limits::NODE_FACTS_BYTES;
use tokio::io::AsyncReadExt as _;

use super::pass;
use crate::guest::stream::{Opened, PeerStreams, Refused};
use crate::limits;

/// Asks the provider.
///
/// # Errors
/// Its refusal, `BadRequest` from one of a release that is not asked for it; or `Unavailable`, when no
/// answer comes in time, or none that can be read.
pub async fn ask(peer: &dyn PeerStreams, contract: ContractId) -> Result<NodeFacts, Refused> {
    let unavailable = |text: String| Refused::new(RefusedReason::Unavailable, text);
    let answer = async {
        let Opened::Body(body) = pass::open(peer, Ask::Node { contract }).await? else {
            return Err(unavailable("the provider opened something else".to_owned()));
        };
        let mut bytes = Vec::new();
        let most = u64::try_from(NODE_FACTS_BYTES + 1).unwrap_or(u64::MAX);
        let read = body.take(most).read_to_end(&mut bytes).await;
        read.map_err(|error| unavailable(error.to_string()))?;
        NodeFacts::from_bytes(&bytes).map_err(|error| unavailable(error.to_string()))
    };
    let late = |_| Err(unavailable("the answer did not come in time".to_owned()));
    tokio::time::timeout(limits::USAGE_TIMEOUT, answer).await.unwrap_or_else(late)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::BoxFuture;

    use super::*;

    /// Answers with these bytes, or with bad request as releases do that are not asked for it.
    struct Provider(Option<Vec<u8>>);

    impl PeerStreams for Provider {
        fn open(&self, _: Ask) -> BoxFuture<'static, Result<Opened, Refused>> {
            let answer = match self.0.clone() {
                Some(bytes) => Ok(Opened::Body(Box::new(std::io::Cursor::new(bytes)))),
                None => Err(Refused::new(RefusedReason::BadRequest, "no such message")),
            };
            async move { answer }.boxed()
        }
    }

    async fn said(answer: Option<Vec<u8>>) -> Result<NodeFacts, RefusedReason> {
        let said = ask(&Provider(answer), ContractId([5; 16])).await;
        said.map_err(|refused| refused.reason)
    }

    #[tokio::test]
    async fn what_is_said_is_read_and_nothing_longer() {
        let resources = [("l4".parse().unwrap(), "nvidia.com/gpu".to_owned())].into();
        let facts = NodeFacts { resources, ..NodeFacts::default() };
        let bytes = facts.to_bytes().unwrap();
        assert_eq!(said(Some(bytes.clone())).await, Ok(facts));
        assert_eq!(said(None).await, Err(RefusedReason::BadRequest));
        let more = [bytes, vec![0; NODE_FACTS_BYTES]].concat();
        assert_eq!(said(Some(more)).await, Err(RefusedReason::Unavailable));
        assert_eq!(said(Some(Vec::new())).await, Err(RefusedReason::Unavailable));
    }
}
