//! From what a person types, a name or the beginning of an id, to the one that is meant.

use std::collections::BTreeMap;

use mercato_broker::{Side, Standing};
use mercato_protocol::id::ClusterId;

use crate::admin::{Class, Deal, OperatorApi, Problem};
use crate::present::deal::state;
use crate::present::text::called;

/// A cluster that something is known of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) cluster: ClusterId,
    pub(crate) name: Option<String>,
    pub(crate) standing: Standing,
}

impl Known {
    pub(crate) fn called(&self) -> String {
        called(self.name.as_deref(), &self.cluster)
    }
}

/// The cluster that is meant. A whole id needs not be known yet.
pub(crate) async fn cluster(api: &dyn OperatorApi, text: &str) -> Result<Known, Problem> {
    let mut all: BTreeMap<ClusterId, Known> = BTreeMap::new();
    let mut learn = |cluster, name: Option<String>, standing| {
        let known = Known { cluster, name: name.clone(), standing };
        let known = all.entry(cluster).or_insert(known);
        known.name = known.name.take().or(name);
        known.standing = known.standing.max(standing);
    };
    for peer in api.peers().await? {
        if let Some(cluster) = peer.cluster {
            learn(cluster, peer.name, peer.standing);
        }
    }
    for provider in api.providers().await? {
        learn(provider.cluster, Some(provider.name), provider.standing);
    }
    for deal in api.deals().await? {
        learn(deal.peer, deal.peer_name, Standing::Stranger);
    }
    let whole = text.parse().ok().filter(|cluster| !all.contains_key(cluster));
    if let Some(cluster) = whole {
        return Ok(Known { cluster, name: None, standing: Standing::Stranger });
    }
    let id = |known: &Known| known.cluster.to_string();
    let found = all.into_values().collect();
    pick("cluster", "mercato peers, mercato browse", text, found, id, |known| known.name.as_deref())
}

/// An order, a request or a contract of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sought {
    /// The word for it in messages.
    pub(crate) what: &'static str,
    /// What shows all of them.
    pub(crate) list: &'static str,
    /// What it has to be for what is to be done with it.
    pub(crate) needs: &'static str,
}

/// What a person types to mean one of them.
pub(crate) const CONTRACT: Sought = Sought {
    what: "order or contract",
    list: "mercato contracts list --all",
    needs: "open or running",
};

/// The order, request or contract that is meant, among those that can be.
pub(crate) async fn deal(
    api: &dyn OperatorApi,
    Sought { what, list, needs }: Sought,
    text: &str,
    among: impl Fn(&Deal) -> bool,
) -> Result<Deal, Problem> {
    let id = |deal: &Deal| deal.id.to_string();
    let (deals, others): (Vec<_>, Vec<_>) = api.deals().await?.into_iter().partition(among);
    let none = match pick(what, list, text, deals, id, |_| None) {
        Err(problem) if problem.class == Class::NoMatch => problem,
        found => return found,
    };
    // One that is there and cannot be meant says why.
    let Ok(other) = pick(what, list, text, others, id, |_| None) else { return Err(none) };
    let short = other.id.short();
    let side = match other.side {
        Side::Consumer => "bought from",
        Side::Provider => "sold to",
    };
    let (peer, state) = (called(other.peer_name.as_deref(), &other.peer), state(&other));
    Err(Problem::new(Class::NoMatch, format!("{short} is not {needs}: {side} {peer}, {state}"))
        .todo(format!("see it: mercato contracts show {short}")))
}

/// The one that is called so, or whose id begins so.
pub(crate) fn pick<T>(
    kind: &str,
    list: &str,
    text: &str,
    all: Vec<T>,
    id: impl Fn(&T) -> String,
    name: impl Fn(&T) -> Option<&str>,
) -> Result<T, Problem> {
    let start = text.to_ascii_lowercase();
    let meant =
        |one: &T| name(one) == Some(text) || (!start.is_empty() && id(one).starts_with(&start));
    let mut found: Vec<T> = all.into_iter().filter(meant).collect();
    match (found.pop(), found.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => Err(Problem::new(Class::NoMatch, format!("no {kind} is called {text:?}"))
            .todo(format!("see what there is: {list}"))),
        (Some(last), _) => {
            found.push(last);
            let said = |one: &T| match name(one) {
                Some(name) => format!("{:.12} {name}", id(one)),
                None => format!("{:.12}", id(one)),
            };
            let what = format!("{text:?} may be each of {} {kind}s", found.len());
            let problem = Problem::new(Class::Usage, what).todo("say more of the id of one:");
            Err(found.iter().fold(problem, |problem, one| problem.todo(format!("  {}", said(one)))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str) -> Result<&'static str, Problem> {
        let all = vec![("4f3c", "rome"), ("4fab", "turin"), ("77aa", "turin")];
        let id = |one: &(&str, &str)| one.0.to_owned();
        pick("cluster", "mercato peers", text, all, id, |one| Some(one.1)).map(|one| one.0)
    }

    #[test]
    fn a_name_or_the_beginning_of_an_id_will_do() {
        assert_eq!(find("rome"), Ok("4f3c"));
        assert_eq!(find("4FA"), Ok("4fab"));
        let nobody = find("milan").unwrap_err();
        assert_eq!(nobody.class, Class::NoMatch);
        assert_eq!(
            nobody.to_string(),
            "no cluster is called \"milan\"\n  see what there is: mercato peers"
        );
        assert_eq!(find("").unwrap_err().class, Class::NoMatch);
        let both = find("turin").unwrap_err();
        assert_eq!(both.class, Class::Usage);
        assert!(both.to_string().contains("4fab turin"), "{both}");
    }
}
