//! What happened in a federation, in words.

use mercato_agent::FederationNews;
use mercato_protocol::id::{ClusterId, FederationId};
use mercato_protocol::text::Slug;

use crate::admin::{Event, EventFederation, EventKind as Kind, EventPeer};
use crate::present::text::called;

/// An event of it, by the names that are known of its members.
pub(super) fn event(
    id: FederationId,
    federation: &Slug,
    news: FederationNews,
    name_of: impl Fn(&ClusterId) -> Option<String>,
) -> Event {
    let member = match &news {
        FederationNews::MemberJoined(cluster, _)
        | FederationNews::MemberChanged(cluster, _)
        | FederationNews::MemberRevoked(cluster)
        | FederationNews::MemberExpired(cluster) => {
            Some(EventPeer { id: *cluster, name: name_of(cluster) })
        }
        FederationNews::Joined
        | FederationNews::Followed
        | FederationNews::Renewed
        | FederationNews::Left
        | FederationNews::Revoked
        | FederationNews::Expired
        | FederationNews::Unreachable
        | FederationNews::NotRenewed(_) => None,
    };
    let who = member.as_ref().map(|peer| called(peer.name.as_deref(), &peer.id));
    let who = who.unwrap_or_default();
    let of = |organisation: Option<Slug>| match organisation {
        Some(organisation) => format!("as a cluster of {organisation}"),
        None => "without an organisation".to_owned(),
    };
    let (kind, text) = match news {
        FederationNews::Joined => (Kind::FederationJoined, format!("joined {federation}")),
        FederationNews::Followed => (
            Kind::FederationFollowed,
            format!("goes by the certificates of {federation}, without being a member"),
        ),
        FederationNews::Renewed => {
            (Kind::FederationRenewed, format!("the membership in {federation} was renewed"))
        }
        FederationNews::Left => (Kind::FederationLeft, format!("left {federation}")),
        FederationNews::Revoked => {
            (Kind::FederationRevoked, format!("the membership in {federation} was revoked"))
        }
        FederationNews::Expired => {
            (Kind::FederationExpired, format!("the membership in {federation} has expired"))
        }
        FederationNews::Unreachable => (
            Kind::FederationRegistrarUnreachable,
            format!("the registrar of {federation} did not answer: the membership is not renewed"),
        ),
        FederationNews::NotRenewed(no) => (
            Kind::FederationNotRenewed,
            format!("the registrar of {federation} refused to renew the membership: {no}"),
        ),
        FederationNews::MemberJoined(_, organisation) => (
            Kind::FederationMemberJoined,
            format!("{who} joined {federation} {}", of(organisation)),
        ),
        FederationNews::MemberChanged(_, organisation) => (
            Kind::FederationMemberChanged,
            format!("the membership of {who} in {federation} is another: {}", of(organisation)),
        ),
        FederationNews::MemberRevoked(_) => (
            Kind::FederationMemberRevoked,
            format!("the membership of {who} in {federation} was revoked"),
        ),
        FederationNews::MemberExpired(_) => (
            Kind::FederationMemberExpired,
            format!("the membership of {who} in {federation} has expired"),
        ),
    };
    let federation = EventFederation { id, name: federation.clone() };
    Event { peer: member, federation: Some(federation), ..Event::of(kind, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_joins_or_has_other_rights_is_named() {
        let (italia, cluster) = ("italia".parse().unwrap(), ClusterId([0x4f; 32]));
        let said = |news| {
            let turin = |_: &ClusterId| Some("turin".to_owned());
            event(FederationId([1; 32]), &italia, news, turin)
        };
        let joined = said(FederationNews::MemberJoined(cluster, Some("polito".parse().unwrap())));
        assert!(joined.text.ends_with(" joined italia as a cluster of polito"), "{joined:?}");
        assert!(joined.text.starts_with("turin"), "{joined:?}");
        assert_eq!(joined.peer.map(|peer| peer.id), Some(cluster));
        let changed = said(FederationNews::MemberChanged(cluster, None));
        assert!(changed.text.ends_with("is another: without an organisation"), "{changed:?}");
    }
}
