//! `mercato federation revoke`: by a registrar's word a member, by the root's a registrar.

use mercato_agent::{Joined, Listed};
use mercato_protocol::certificate::RevocationList;
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::ClusterId;
use serde::Serialize;

use super::lookup;
use super::root_key::RootKey;
use super::screen::Screen;
use crate::admin::{Class, OperatorApi, Problem, Request};
use crate::present::text::{called, moment};

/// What a revocation came to.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Revoked {
    cluster: ClusterId,
    /// The number of the list that says so, and until when it is fresh.
    list: Option<(u64, u64)>,
}

/// Lets a cluster belong no longer: by this registrar's word, or by the root's.
pub(super) async fn revoke(
    api: &dyn OperatorApi,
    screen: &Screen,
    federation: &Joined,
    text: &str,
    root_key: Option<RootKey>,
) -> Result<String, Problem> {
    let members = api.members(federation.id).await?;
    let id = |one: &Listed| one.cluster.to_string();
    let list = "mercato federation members";
    let member = lookup::pick("member", list, text, members, id, |one| one.name.as_deref())?;
    let called = called(member.name.as_deref(), &member.cluster);
    if let Some(root_key) = root_key {
        let word = by_root(federation, &member, &called, &root_key)?;
        let said = format!(
            "{called} is no longer a registrar, and the members that it let in are no longer\n\
             members: they join again with another registrar's token. Contracts run on."
        );
        screen.confirm(&said, &format!("revoke {called} in {}?", federation.name))?;
        api.tell(Request::Publish(federation.id, word)).await?;
        let revoked = Revoked { cluster: member.cluster, list: None };
        return screen.render(&revoked, || format!("{called} is revoked\n"));
    }
    if member.certificate.is_some_and(|(by, _)| by == federation.root) {
        let what = format!("{called} is a registrar: only the root key can revoke it");
        return Err(Problem::new(Class::Usage, what).todo(format!(
            "with the root key: mercato federation revoke {called} --root-key FILE"
        )));
    }
    let said = format!(
        "{called} cannot join again as this cluster; contracts run on, new ones are not made with it"
    );
    screen.confirm(&said, &format!("revoke {called} in {}?", federation.name))?;
    api.tell(Request::Revoke(federation.id, member.cluster)).await?;
    let now = api.federations().await?.into_iter().find(|of| of.id == federation.id);
    let revoked = Revoked { cluster: member.cluster, list: now.and_then(|now| now.list) };
    screen.render(&revoked, || {
        let list = revoked.list.map_or_else(String::new, |(number, next_ms)| {
            format!(":\nrevocation list {number}, the next by {}", moment(next_ms))
        });
        format!("{called} is revoked{list}\n")
    })
}

/// What the root says of one to whom it gave a certificate, and of those before.
fn by_root(
    federation: &Joined,
    member: &Listed,
    called: &str,
    key: &RootKey,
) -> Result<Signed<RevocationList>, Problem> {
    if (key.federation(), key.public()) != (federation.id, federation.root) {
        let what = format!("this is not the current root key of {}", federation.name);
        return Err(Problem::new(Class::Usage, what).todo("name the file of the current one"));
    }
    let serial = member.certificate.filter(|(by, _)| *by == federation.root).map(|of| of.1);
    let serial = serial.ok_or_else(|| {
        let what = format!("{called} has no certificate of the root key: a registrar let it in");
        Problem::new(Class::NoMatch, what).todo(format!(
            "on that registrar, without the root key: mercato federation revoke {called}"
        ))
    })?;
    key.revoke(federation.root_revoked.iter().copied().chain([serial]).collect())
}
