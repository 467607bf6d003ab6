//! What `offload` and `unoffload` ask.

use std::sync::Arc;

use clap::Parser as _;
use mercato_offload::placement::export::{GuestName, Listed, Opens, Secrets, Strategy, Targets};

use super::{Script, mercato, told};
use crate::admin::{Class, Request};
use crate::cli::args::Cli;

#[test]
fn a_namespace_leaves_and_comes_back() {
    let api = super::script(&[]);
    mercato(&api, "offload shop --strategy remote").unwrap();
    let Some(Request::Offload(offload)) = told(&api) else { panic!("nothing leaves") };
    assert_eq!((offload.namespace.as_str(), offload.how.api_access), ("shop", false));
    assert_eq!(offload.how.strategy, Strategy::Remote);
    assert_eq!((offload.how.secrets, offload.how.targets), (Secrets::All, Targets::All));
    let secrets = |words: &str| {
        mercato(&api, &format!("offload shop {words}")).unwrap();
        let Some(Request::Offload(offload)) = told(&api) else { panic!("nothing leaves") };
        offload.how.secrets
    };
    let both = || ["a".to_owned(), "b".to_owned()].into();
    assert_eq!(secrets("--secrets a,b"), Secrets::Allow(both()));
    assert_eq!(secrets("--secrets none"), Secrets::Allow([].into()));
    assert_eq!(secrets("--except-secrets a,b"), Secrets::Deny(both()));
    for name in ["default", "same", "shop-eu"] {
        mercato(&api, &format!("offload shop --name {name}")).unwrap();
        let Some(Request::Offload(offload)) = told(&api) else { panic!("nothing leaves") };
        assert_eq!(offload.how.name, GuestName::from(name));
    }
    let opens = |words: &str| {
        mercato(&api, &format!("offload shop {words}")).unwrap();
        let Some(Request::Offload(offload)) = told(&api) else { panic!("nothing leaves") };
        offload.how.opens
    };
    let listed = |names: &[&str]| Listed::new(names.iter().map(|name| (*name).to_owned()));
    assert_eq!(opens("--strategy remote"), Opens::default());
    let db = Opens { services: listed(&["db", "cache"]), ..Opens::default() };
    assert_eq!(opens("--services db,cache"), db);
    let web = Opens { services: Listed::All, callers: listed(&["web"]) };
    assert_eq!(opens("--strategy local --services * --callers web"), web);
    for words in ["--services Db", "--services db --callers a/b"] {
        let refused = mercato(&api, &format!("offload shop {words}")).unwrap_err();
        assert_eq!(refused.class, Class::Usage, "{words}");
        assert!(refused.todo.iter().any(|it| it.contains("or * for all")), "{refused:?}");
    }
    for words in ["shop --name Shop", "shop --name kube-mine", "default --name same"] {
        let refused = mercato(&api, &format!("offload {words}")).unwrap_err();
        assert_eq!(refused.class, Class::Usage, "{words}");
        assert!(refused.what.contains("no guest namespace can be called"), "{}", refused.what);
    }
    let said = |words: &str| mercato(&api, &format!("offload shop {words}")).unwrap();
    assert_eq!(said("--strategy both"), "new pods of shop run at home or at providers (both)\n");
    assert_eq!(said("--strategy remote --to turin"), "new pods of shop run at turin alone\n");
    let both = said("--to turin,mercato-lyon");
    assert_eq!(both, "new pods of shop run at home or at turin, mercato-lyon alone (both)\n");
    let to = |words: &str| {
        mercato(&api, &format!("offload shop --to {words}")).map(|_| {
            let Some(Request::Offload(offload)) = told(&api) else { panic!("nothing leaves") };
            Vec::<String>::from(offload.how.targets)
        })
    };
    assert_eq!(to("turin").unwrap(), ["4f".repeat(32)]);
    // Of nodes that are to come the name alone is known, as a NamespaceOffload has it; a provider that
    // nobody knows has no fingerprint yet.
    assert_eq!(to("mercato-lyon,turin").unwrap(), ["mercato-lyon".to_owned(), "4f".repeat(32)]);
    assert_eq!(to("lyon").unwrap_err().class, Class::NoMatch);
    let both = "mercato offload shop --secrets a --except-secrets b";
    assert!(Cli::try_parse_from(both.split(' ')).is_err());
    assert_eq!(mercato(&api, "unoffload shop").unwrap_err().class, Class::Usage);
    mercato(&api, "unoffload shop --yes").unwrap();
    assert_eq!(told(&api), Some(Request::Unoffload("shop".to_owned())));
    let said = mercato(&api, "unoffload shop --yes").unwrap();
    // Pods that stay behind are for people to delete; the command has done its part.
    let stranded = Script { stranded: vec!["a".into(), "b".into()], ..Script::default() };
    assert_eq!(mercato(&Arc::new(stranded), "unoffload shop --yes").unwrap(), said);
}
