//! `mercato key`: put a new key in the place of the one that speaks for this cluster.

use std::time::Duration;

use clap::Subcommand;
use mercato_protocol::certificate::Role;
use mercato_protocol::id::PublicKey;
use tokio::time::{sleep, timeout};

use super::screen::Screen;
use crate::admin::{Class, OperatorApi, Problem, Request};
use crate::limits;

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Replace the key with a new one; peers accept it and refuse the old one
    #[command(after_help = "Examples:
  mercato key rotate
  mercato key rotate --yes

The daemon restarts with the new key. The cluster keeps its id, contracts,
memberships and reputation. Earlier exports hold the old key: export again.")]
    Rotate,
}

impl Key {
    pub(crate) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
        patience: Duration,
    ) -> Result<String, Problem> {
        match self {
            Self::Rotate => rotate(api, screen, patience).await,
        }
    }
}

async fn rotate(
    api: &dyn OperatorApi,
    screen: &Screen,
    patience: Duration,
) -> Result<String, Problem> {
    let before = api.status().await?;
    let mut said =
        "The cluster gets a new key, and its daemon restarts: connections and shells into\n\
                    pods break for a moment, pods and contracts run on. Peers that learn of the\n\
                    new key refuse the old one."
            .to_owned();
    let federations = api.federations().await?;
    let led = federations.iter().filter(|of| of.roles.contains(&Role::Registrar));
    let led: Vec<String> = led.map(|of| of.name.to_string()).collect();
    if !led.is_empty() {
        said += &format!(
            "\nAs a registrar of {} it lets nobody in\n\
             until the root key has certified the new key:\n\
             mercato federation registrar ROOT-KEY",
            led.join(" and ")
        );
    }
    screen.confirm(&said, &format!("replace the key of {}?", before.name))?;
    api.tell(Request::RotateKey).await?;
    let key = timeout(patience, another(api, before.key)).await.map_err(|_| {
        Problem::new(Class::TimedOut, "the key is replaced, and the daemon does not answer yet")
            .todo("see whether it runs: mercato status")
    })?;
    let key = key.short();
    Ok(screen.done(format!("the key of {} is {key} now; its id is the same", before.name)))
}

/// The key of the daemon that has started again.
async fn another(api: &dyn OperatorApi, before: PublicKey) -> PublicKey {
    loop {
        match api.status().await {
            Ok(status) if status.key != before => return status.key,
            // It is on its way.
            Ok(_) | Err(_) => sleep(limits::RESTART_LOOK).await,
        }
    }
}
