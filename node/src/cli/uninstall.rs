//! `mercato uninstall`: what is typed, asked and shown.

use std::path::{Path, PathBuf};

use clap::Args;
use mercato_config::settings;

use super::global::Global;
use super::screen::Screen;
use crate::admin::{self, Problem};
use crate::desk::{self, Place};
use crate::kubernetes::site::Site;
use crate::uninstall::Leaving;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato uninstall --dry-run
  mercato uninstall --yes

Contracts are ended, and the daemon that the chart has installed; virtual nodes,
guest namespaces, finalizers, the webhook and marks of namespaces go, also where
the daemon is gone already. helm uninstall does this by itself.")]
pub(crate) struct Uninstall {
    /// Show what would go, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The cluster, by the rights of an administrator [default: $KUBECONFIG,
    /// ~/.kube/config, or the pod's own cluster]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Uninstall {
    pub(crate) async fn perform(self, global: &Global, screen: &Screen) -> Result<String, Problem> {
        let settings = settings::Kubernetes {
            kubeconfig: self.kubeconfig,
            context: global.context.clone(),
            ..settings::Kubernetes::default()
        };
        let place =
            Place { kubeconfig: settings.kubeconfig.clone(), context: settings.context.clone() };
        let site = Site::open("the cluster".to_owned(), &settings).await?;
        let timeout = global.answer_timeout();
        let sockets = global.sockets().into_iter().map(|path| admin::Client::new(path, timeout));
        let is_named = place != Place::default();
        let pod = Box::new(desk::Client::new(place, None, timeout));
        let leaving = Leaving::from(site, is_named, sockets.collect(), pod).await?;
        let found = leaving.found().await?;
        leaving.others().iter().for_each(|line| screen.note(line));
        if !leaving.has_daemon() {
            screen.note(
                "no daemon of the cluster is asked: contracts that are in force are not seen",
            );
        }
        if self.dry_run {
            return screen.render(&found, || match found.is_empty() {
                true => "nothing of Mercato's is there\n".to_owned(),
                false => found.iter().map(|line| format!("{line}\n")).collect(),
            });
        }
        let said = match found.is_empty() {
            true if leaving.has_daemon() => {
                "Nothing of Mercato's is seen but the daemon.".to_owned()
            }
            true => "Nothing of Mercato's is seen.".to_owned(),
            false => format!("These go:\n{}", found.join("\n")),
        };
        screen.confirm(&said, "remove them?")?;
        let left = leaving.perform().await?;
        for line in &left {
            screen.note(line);
        }
        let done = match left.is_empty() {
            true => "all that Mercato had made in this cluster is removed",
            false => "what Mercato had made in this cluster is removed, but for what is said above",
        };
        Ok(screen.done(format!("{done}\n{INSTALLED}\n{}", kept(&global.data_dir()))))
    }
}

/// What was not made by a daemon.
const INSTALLED: &str = "what was installed stays: accounts, rights, admission policies, the class of storage, definitions of custom \
    resources, and their objects, such as Contracts; to remove them as well: helm uninstall mercato, or kubectl delete -f config/deploy/";

/// That identity and records of the cluster stay.
fn kept(folder: &Path) -> String {
    let folder = match folder.exists() {
        true => format!("the data folder {}", folder.display()),
        false => "the data folder of the daemon, on its machine or volume,".to_owned(),
    };
    format!(
        "{folder} stays, with the identity and the records of this cluster: whoever deletes it comes \
         back as another cluster"
    )
}
