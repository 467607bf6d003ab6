//! `mercato offload` and `unoffload`: which namespaces may leave home.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use mercato_kubelet::offload_namespace::deletion;
use mercato_offload::limits;
use mercato_offload::placement::export::{
    GuestName, Listed, Opens, OptIn, Secrets, Strategy, Targets,
};
use mercato_offload::placement::spec::NODE_PREFIX;
use mercato_protocol::id::ContractId;
use mercato_protocol::names::is_label;
use mercato_protocol::text::shown;

use super::lookup;
use super::screen::Screen;
use super::table::Table;
use crate::admin::{self, Answer, Class, OperatorApi, Problem, Request, unexpected};
use crate::present::text::label;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato offload shop --name shop-eu
  mercato offload shop --strategy remote --to turin --secrets recipe,tls")]
pub(crate) struct Offload {
    /// The name of the namespace
    #[arg(value_parser = label)]
    namespace: String,
    /// Where its pods may run
    #[arg(long, value_parser = strategy(), default_value = "both")]
    strategy: Strategy,
    /// The virtual nodes and providers where they may run, by name or id [default: all]
    #[arg(long, value_name = "NODE|PROVIDER", value_delimiter = ',')]
    to: Vec<String>,
    /// The namespace's name at the provider: chosen by the provider, the same as at home, or
    /// this one; a new name takes effect once no pod is there under the old one
    #[arg(long, value_name = "default|same|NAME", default_value = "default")]
    name: String,
    /// Whether pods at providers get tokens for the home API server
    #[arg(long, value_enum, default_value_t)]
    api_access: ApiAccess,
    /// The only secrets that may leave with the pods that use them; or none [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "except_secrets")]
    secrets: Option<Vec<String>>,
    /// Secrets that stay at home, while all others may leave
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    except_secrets: Option<Vec<String>>,
    /// Services that guests of other namespaces may call where no pod of this one runs, `*` for all [default: none]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    services: Vec<String>,
    /// The namespaces whose guests may call them [default: all that may leave home]
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    callers: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ApiAccess {
    #[default]
    None,
    Home,
}

impl Offload {
    pub(crate) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
    ) -> Result<String, Problem> {
        let Self { namespace, strategy, api_access, name, .. } = self;
        let name = GuestName::from(name.as_str());
        let called = name.place(&namespace);
        let called = called.map_err(|why| Problem::new(Class::Usage, why))?;
        let api_access = api_access == ApiAccess::Home;
        let secrets = match (self.secrets, self.except_secrets) {
            (Some(names), _) if names == ["none"] => Secrets::Allow([].into()),
            (Some(names), _) => Secrets::Allow(names.into_iter().collect()),
            (None, Some(names)) => Secrets::Deny(names.into_iter().collect()),
            (None, None) => Secrets::All,
        };
        let mut to = Vec::new();
        for one in &self.to {
            to.push(target(api, one).await?);
        }
        let called = called.map(|name| format!(", in namespace {name} there")).unwrap_or_default();
        let place = place(strategy, &self.to);
        let sentence = format!("new pods of {namespace} run {place}{called}");
        let targets = Targets::new(to);
        let opens = opens(self.services, self.callers)?;
        let how = OptIn { strategy, api_access, secrets, targets, name, opens, ..OptIn::default() };
        let offload = admin::Offload { namespace, how: how.clone(), further: false };
        let leaving = api.offload(offload).await?;
        screen.warn(&leaving.unknown);
        leaving.lacks(&how).into_iter().for_each(|lacks| screen.note(lacks));
        Ok(screen.done(sentence))
    }
}

/// What these words open, each of which has to be a name.
fn opens(services: Vec<String>, callers: Option<Vec<String>>) -> Result<Opens, Problem> {
    let listed = |what: &str, names: Vec<String>| {
        if names.len() > limits::LISTED {
            let why = format!("{what}: at most {} names", limits::LISTED);
            return Err(Problem::new(Class::Usage, why));
        }
        match names.iter().find(|name| *name != "*" && !is_label(name)) {
            Some(wrong) => {
                Err(Problem::new(Class::Usage, format!("{what}: {wrong:?} is no name in Kubernetes"))
                .todo("write lower-case letters, digits and hyphens, with commas between names; or * for all"))
            }
            None => Ok(Listed::new(names)),
        }
    };
    let callers = callers.map(|names| listed("--callers", names)).transpose()?;
    Ok(Opens { services: listed("--services", services)?, callers: callers.unwrap_or(Listed::All) })
}

fn strategy() -> impl TypedValueParser<Value = Strategy> {
    let help = |strategy: &str| match Strategy::parse(strategy).unwrap_or_default() {
        Strategy::Local => "At home only",
        Strategy::Remote => "Elsewhere only",
        Strategy::Both => "Wherever the scheduler finds best",
    };
    let all = Strategy::ALL.map(Strategy::as_str);
    let all = all.map(|name| PossibleValue::new(name).help(help(name)));
    PossibleValuesParser::new(all).map(|name| Strategy::parse(&name).unwrap_or_default())
}

/// A virtual node's name as it is, also of one that is to come; a provider's as its fingerprint: names
/// are claimed.
async fn target(api: &dyn OperatorApi, text: &str) -> Result<String, Problem> {
    let deals = api.deals().await?;
    if deals.iter().any(|deal| deal.node.as_deref() == Some(text)) {
        return Ok(text.to_owned());
    }
    match lookup::cluster(api, text).await {
        Ok(known) => Ok(known.cluster.to_string()),
        Err(none) if none.class == Class::NoMatch && text.starts_with(NODE_PREFIX) => {
            Ok(text.to_owned())
        }
        Err(none) => Err(none),
    }
}

/// Where new pods run, of virtual nodes on these alone, as they were typed.
fn place(strategy: Strategy, to: &[String]) -> String {
    let at = match to {
        [] => "at providers".to_owned(),
        to => format!("at {} alone", to.join(", ")),
    };
    match strategy {
        Strategy::Local => "at home".to_owned(),
        Strategy::Remote => at,
        Strategy::Both => format!("at home or {at} ({})", strategy.as_str()),
    }
}

/// What namespaces here open to guests of others, and which contracts have such guests.
pub(crate) async fn opened(api: &dyn OperatorApi, screen: &Screen) -> Result<String, Problem> {
    let opened = api.status().await?.gateway.opened;
    screen.render(&opened, || {
        if opened.is_empty() {
            return "no namespace opens a Service; to begin: mercato offload NAMESPACE --strategy local \
                    --services NAME\n"
                .to_owned();
        }
        let mut table = Table::new(["NAMESPACE", "SERVICES", "CALLERS", "CONTRACTS"]);
        for of in &opened {
            let listed = |names: &[String]| match names {
                [] => "-".to_owned(),
                [first] => shown(first).into_owned(),
                [first, others @ ..] => format!("{}, {} more", shown(first), others.len()),
            };
            let ids: Vec<String> = of.contracts.iter().map(ContractId::short).collect();
            let left_out = match of.left_out {
                0 => String::new(),
                some => format!("{some} without room"),
            };
            let contracts = [listed(&ids), left_out].into_iter().filter(|it| !it.is_empty());
            let contracts = contracts.collect::<Vec<_>>().join("; ");
            let (services, callers) = (listed(&of.services), listed(&of.callers));
            table.row([shown(&of.namespace).into_owned(), services, callers, contracts]);
        }
        table.render(screen.is_wide())
    })
}

pub(crate) async fn unoffload(
    api: &dyn OperatorApi,
    screen: &Screen,
    namespace: String,
) -> Result<String, Problem> {
    let said = format!("pods of {namespace} that run at providers are ended there");
    // Whoever has said yes hears it once it is done: it may be refused.
    screen.ask(&said, &format!("run {namespace} at home only?"))?;
    let answer = api.ask(Request::Unoffload(namespace.clone())).await?;
    if let Answer::Stranded(pods) = &answer {
        screen.note(format!(
            "pods that nobody makes again wait for a virtual node, and would for ever; delete them, and \
             make them again: {}",
            deletion(&namespace, pods)
        ));
    } else if answer != Answer::Done {
        return Err(unexpected(&answer));
    }
    Ok(screen.done(format!("new pods of {namespace} run at home; {said}")))
}
