//! `mercato offload` and `unoffload`: which namespaces may leave home.

use clap::{Args, ValueEnum};

use super::screen::Screen;
use super::text::name;
use crate::admin::{self, Desk, Problem, Request, Secrets, Strategy};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato offload shop
  mercato offload shop --strategy remote --api-access home")]
pub(crate) struct Offload {
    /// Which namespace
    namespace: String,
    /// Where its pods may run
    #[arg(long, value_enum, default_value_t)]
    strategy: Strategy,
    /// Whether pods elsewhere get tokens for home's API server
    #[arg(long, value_enum, default_value_t)]
    api_access: ApiAccess,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ApiAccess {
    #[default]
    None,
    Home,
}

impl Offload {
    pub(crate) async fn perform(self, desk: &dyn Desk, screen: &Screen) -> Result<String, Problem> {
        let Self { namespace, strategy, api_access } = self;
        let api_access = api_access == ApiAccess::Home;
        let secrets = Secrets::All;
        let sentence = format!("new pods of {namespace} run {}", place(strategy));
        desk.tell(Request::Offload(admin::Offload { namespace, strategy, api_access, secrets }))
            .await?;
        Ok(screen.done(sentence))
    }
}

fn place(strategy: Strategy) -> String {
    match strategy {
        Strategy::Local => "at home".to_owned(),
        Strategy::Remote => "elsewhere".to_owned(),
        Strategy::Both => format!("at home or elsewhere ({})", name(strategy)),
    }
}

pub(crate) async fn unoffload(
    desk: &dyn Desk,
    screen: &Screen,
    namespace: String,
) -> Result<String, Problem> {
    let said = format!("pods of {namespace} that run elsewhere are ended there");
    screen.confirm(&said, &format!("bring {namespace} home?"))?;
    desk.tell(Request::Unoffload(namespace.clone())).await?;
    Ok(screen.done(format!("{namespace} stays at home")))
}
