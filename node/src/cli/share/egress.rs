//! The way out to the Internet that is sold: as options, and as `mercato share` shows it.

use clap::Args;
use ipnet::IpNet;
use mercato_broker::{EgressPolicy, SharePolicy};
use mercato_protocol::egress::{Egress, EgressKind};

use crate::admin::{self, OwnGateway};
use crate::cli::table::wrapped;
use crate::present::unsold;

/// What is said of it on the command line.
#[derive(Args, Debug, Default)]
pub(super) struct TypedEgress {
    /// Whom guests may reach on the Internet: internet, ranges such as 203.0.114.0/24, or none
    #[arg(long, value_name = "RANGES", value_parser = mercato_config::egress)]
    egress: Option<Egress>,
    /// Ranges of your own that guests never reach all the same; or none
    #[arg(long, value_name = "RANGES", value_delimiter = ',', value_parser = unless_none)]
    egress_except: Vec<Option<IpNet>>,
}

impl TypedEgress {
    /// What is said is so from now on; what is not said stays.
    pub(super) fn say(self, policy: &mut SharePolicy) {
        if let Some(egress) = self.egress {
            policy.egress.to = egress.kind();
            policy.egress.named = match egress {
                Egress::None | Egress::Internet => [].into(),
                Egress::Named(ranges) => ranges.ranges().iter().copied().collect(),
            };
        }
        if !self.egress_except.is_empty() {
            policy.egress.except = self.egress_except.into_iter().flatten().collect();
        }
    }
}

/// What the owner says of it, if anything.
pub(super) fn words(policy: &SharePolicy) -> Vec<(&'static str, String)> {
    let EgressPolicy { to, named, except } = &*policy.egress;
    let said = match to {
        EgressKind::None => String::new(),
        EgressKind::Internet => to.word().to_owned(),
        EgressKind::Named => joined(named.iter()),
    };
    let rows = [("egress", said), ("egress except", joined(except.iter()))];
    rows.into_iter().filter(|(_, said)| !said.is_empty()).collect()
}

/// Why it is not on sale, if so.
pub(super) fn on_sale(
    share: &admin::Share,
    policy: &SharePolicy,
    own: Option<&OwnGateway>,
) -> String {
    let why = own.and_then(|own| unsold::no_egress(policy, share.enforces_egress, own));
    why.map(|why| format!("{}\n", wrapped(&why, 2))).unwrap_or_default()
}

fn joined<'a>(ranges: impl Iterator<Item = &'a IpNet>) -> String {
    ranges.map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// A range; none for the word `none`.
fn unless_none(text: &str) -> Result<Option<IpNet>, String> {
    if text == "none" { Ok(None) } else { mercato_config::range(text).map(Some) }
}
