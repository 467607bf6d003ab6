//! `mercato federation`: found one, let others in, join, see who belongs, throw one out. What
//! the root key signs is signed here, on the machine where its owner has put it: `root_key`; the
//! DNS records are in `announce`, joining in `joining`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mercato_agent::{Joined, Listed};
use mercato_config::Seconds;
use mercato_protocol::certificate::Role;
use mercato_protocol::text::Slug;

use super::joined::{entered, page, roles};
use super::root_key::{Rights, RootKey};
use super::screen::Screen;
use super::table::Table;
use super::{announce, joining, lookup, revoke, token};
use crate::admin::{Class, Invitation, OperatorApi, Problem, Request};
use crate::present::text::{moment, text, word};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato federation
  mercato federation create alps --root-key /media/usb/alps.root")]
pub(crate) struct Federation {
    #[command(subcommand)]
    what: Option<What>,
}

/// Which federation of several is meant.
#[derive(Args, Debug)]
struct Of {
    /// Which federation, if this cluster has joined several: its name, or the beginning of
    /// its fingerprint
    #[arg(long = "of", value_name = "FEDERATION")]
    federation: Option<String>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the federations that this cluster has joined (the default)
    #[command(after_help = "Examples:
  mercato federation list
  mercato federation list -o yaml")]
    List,
    /// Create a federation: its root key, with this cluster as the first registrar
    #[command(after_help = "Examples:
  mercato federation create alps
  mercato federation create alps --root-key /media/usb/alps.root")]
    Create {
        /// The name of the federation
        name: Slug,
        /// Where to write the root key, readable by you alone [default: NAME.root]
        #[arg(long, value_name = "FILE")]
        root_key: Option<PathBuf>,
    },
    /// Make this cluster a registrar, or renew it as one, with the root key
    #[command(after_help = "Examples:
  mercato federation registrar /media/usb/alps.root
  mercato federation registrar alps.root --org gov --attribute jurisdiction=IT")]
    Registrar {
        /// The file of the root key
        root_key: PathBuf,
        /// Let in only clusters of this organisation
        #[arg(long, value_name = "ORGANISATION")]
        org: Option<Slug>,
        /// What it may vouch for, of itself and of whom it lets in: jurisdiction=IT
        #[arg(long, value_name = "NAME=VALUE")]
        attribute: Vec<token::Vouched>,
    },
    /// As a registrar: create a token with which one cluster can join, once
    #[command(after_help = "Examples:
  mercato federation token --org polito
  mercato federation token --role provider --attribute jurisdiction=IT")]
    Token {
        #[command(flatten)]
        of: Of,
        /// The organisation of the new member, shown to all
        #[arg(long, value_name = "ORGANISATION")]
        org: Option<Slug>,
        /// What it may do: provider sells, consumer buys
        #[arg(long, value_delimiter = ',', default_values = ["provider", "consumer"])]
        #[arg(value_parser = word::<Role>(&["provider", "consumer"]))]
        role: Vec<Role>,
        /// What its certificate vouches for, as this registrar's own does: jurisdiction=IT
        #[arg(long, value_name = "NAME=VALUE")]
        attribute: Vec<token::Vouched>,
        /// How long the token is valid: at most one day
        #[arg(long = "for", value_name = "DURATION", default_value = "1d")]
        #[arg(value_parser = text::<Seconds>)]
        for_: Seconds,
    },
    /// Join with a registrar's token, or trust a federation that is announced by DNS
    #[command(after_help = "Examples:
  mercato federation join mercato-join-pQEBAlgg...
  mercato federation join alps.example")]
    Join {
        /// A registrar's token, or the federation's DNS name; with @FINGERPRINT after the name
        /// nothing is asked
        what: Invitation,
    },
    /// List the members whose certificates were seen or issued here
    #[command(after_help = "Examples:
  mercato federation members
  mercato federation members --of alps -o yaml")]
    Members {
        #[command(flatten)]
        of: Of,
    },
    /// As a registrar: revoke a member; with the root key also a registrar
    #[command(after_help = "Examples:
  mercato federation revoke turin
  mercato federation revoke 4f3c21ab --of alps --root-key alps.root --yes")]
    Revoke {
        /// Its name, or the beginning of its id
        member: String,
        /// The root key's file: needed to revoke a registrar
        #[arg(long, value_name = "FILE")]
        root_key: Option<PathBuf>,
        #[command(flatten)]
        of: Of,
    },
    /// Replace the root key, and make this cluster a registrar with the new one
    #[command(after_help = "Examples:
  mercato federation rotate alps.root
  mercato federation rotate /media/alps.root --new-key /media/alps-2.root

Whoever learns of the new key ignores what the old one signed: make each other
registrar one again with the new key, then destroy the old one.")]
    Rotate {
        /// The file of the root key
        root_key: PathBuf,
        /// Where to write the new one, readable by you alone [default: NAME-2.root, and so on]
        #[arg(long, value_name = "FILE")]
        new_key: Option<PathBuf>,
    },
    /// Print the DNS records that announce a federation, as lines of a zone file
    #[command(after_help = "Examples:
  mercato federation dns alps.example
  mercato federation dns alps.example --peer hub.alps.example:7474")]
    Dns {
        /// The federation's domain [default: the one by which it was joined]
        domain: Option<String>,
        /// A cluster to which others connect first: HOST:PORT [default: this one]
        #[arg(long, value_name = "ADDR")]
        peer: Vec<String>,
        #[command(flatten)]
        of: Of,
    },
    /// Leave a federation; contracts run on
    #[command(after_help = "Examples:
  mercato federation leave
  mercato federation leave --of alps --yes")]
    Leave {
        #[command(flatten)]
        of: Of,
    },
}

impl Federation {
    pub(crate) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
    ) -> Result<String, Problem> {
        match self.what.unwrap_or(What::List) {
            What::List => list(api, screen).await,
            What::Create { name, root_key } => {
                let file = root_key.unwrap_or_else(|| format!("{name}.root").into());
                let key = RootKey::found(name)?;
                // Where nobody is to become the registrar no key is left.
                api.status().await?;
                key.write(&file)?;
                let said = format!(
                    "the root key is in {}: whoever has it controls the federation. Keep it \
                     offline; you need it to make another registrar, and to renew this one.",
                    file.display()
                );
                eprintln!("{}", screen.fold(&said, 2));
                let made = become_registrar(api, screen, &key, Rights::default()).await;
                made.map_err(|why| goes_on(why, &file))
            }
            What::Registrar { root_key, org, attribute } => {
                let (organisation, attributes) = (org, token::vouched(attribute));
                let rights = Rights { organisation, attributes };
                become_registrar(api, screen, &RootKey::read(&root_key)?, rights).await
            }
            What::Token { of, org, role, attribute, for_ } => {
                let federation = of.pick(api).await?.id;
                token::create(api, screen, federation, org, role, attribute, for_).await
            }
            What::Join { what } => joining::join(api, screen, &what).await,
            What::Members { of } => {
                let federation = of.pick(api).await?;
                let members = api.members(federation.id).await?;
                screen.render(&members, || members_table(&members, screen.is_wide()))
            }
            What::Revoke { member, root_key, of } => {
                let federation = of.pick(api).await?;
                let root_key = root_key.as_deref().map(RootKey::read).transpose()?;
                revoke::revoke(api, screen, &federation, &member, root_key).await
            }
            What::Rotate { root_key, new_key } => rotate(api, screen, &root_key, new_key).await,
            What::Dns { domain, peer, of } => {
                let federation = of.pick(api).await?;
                announce::dns(api, screen, &federation, domain, peer).await
            }
            What::Leave { of } => {
                let federation = of.pick(api).await?;
                let said = format!(
                    "clusters that are trusted only because {} certifies them become strangers",
                    federation.name
                );
                screen.confirm(&said, &format!("leave {}?", federation.name))?;
                api.tell(Request::Leave(federation.id)).await?;
                Ok(screen.done(format!("left {}; contracts run on", federation.name)))
            }
        }
    }
}

impl Of {
    /// The federation that is meant: the only one, if none is named.
    async fn pick(&self, api: &dyn OperatorApi) -> Result<Joined, Problem> {
        let mut all = api.federations().await?;
        match &self.federation {
            Some(text) => lookup::pick(
                "federation",
                "mercato federation",
                text,
                all,
                |one: &Joined| one.id.to_string(),
                |one| Some(one.name.as_str()),
            ),
            None if all.len() == 1 => Ok(all.remove(0)),
            None if all.is_empty() => Err(nothing()),
            None => {
                let said = format!("this cluster has joined {} federations", all.len());
                let problem = Problem::new(Class::Usage, said).todo("say which:");
                Err(all
                    .iter()
                    .fold(problem, |problem, one| problem.todo(format!("  --of {}", one.name))))
            }
        }
    }
}

fn nothing() -> Problem {
    Problem::new(Class::NoMatch, "this cluster has joined no federation")
        .todo("with a registrar's token: mercato federation join TOKEN")
        .todo("or create one: mercato federation create NAME")
}

async fn list(api: &dyn OperatorApi, screen: &Screen) -> Result<String, Problem> {
    let all = api.federations().await?;
    screen.render(&all, || {
        if all.is_empty() {
            return format!("{}\n", nothing());
        }
        all.iter().map(page).collect::<Vec<_>>().join("\n")
    })
}

/// What the root signs for this cluster, and what comes of it.
async fn become_registrar(
    api: &dyn OperatorApi,
    screen: &Screen,
    key: &RootKey,
    rights: Rights,
) -> Result<String, Problem> {
    let daemon = api.status().await?;
    let before = api.federations().await?.into_iter().find(|of| of.id == key.federation());
    let domain = before.and_then(|before| before.domain);
    let papers = key.registrar(daemon.cluster, daemon.key, rights, domain)?;
    api.tell(Request::Enter(papers)).await?;
    let done = format!("{} is a registrar of {}", daemon.name, key.name());
    entered(api, screen, key.federation(), &done).await
}

/// A new root key, and this cluster its first registrar.
async fn rotate(
    api: &dyn OperatorApi,
    screen: &Screen,
    file: &Path,
    new_file: Option<PathBuf>,
) -> Result<String, Problem> {
    let old = RootKey::read(file)?;
    let new = old.succeed()?;
    let before = api.federations().await?.into_iter().find(|of| of.id == old.federation());
    if before.is_some_and(|before| before.root != old.public()) {
        let what = format!("this is not the current root key of {}", old.name());
        return Err(Problem::new(Class::Usage, what)
            .todo("name the file of the current one: members ignore what an earlier one signs"));
    }
    let said = format!(
        "members of {} learn of the new key from their registrars, and then ignore what the old\n\
         one signed. Contracts run on; new ones wait until both sides know the new key.",
        old.name()
    );
    screen.confirm(&said, &format!("replace the root key of {}?", old.name()))?;
    let new_file = new_file.unwrap_or_else(|| new.file_name().into());
    new.write(&new_file)?;
    eprintln!(
        "the new root key is in {}: keep it offline. Each other registrar needs it:\n\
         mercato federation registrar {0}",
        new_file.display()
    );
    let made = become_registrar(api, screen, &new, Rights::default()).await;
    made.map_err(|why| goes_on(why, &new_file))
}

/// The key was written before this: it need not be made once more, and cannot be under its name.
fn goes_on(why: Problem, file: &Path) -> Problem {
    why.todo(format!("to go on with this key: mercato federation registrar {}", file.display()))
}

fn members_table(members: &[Listed], wide: bool) -> String {
    let mut table = Table::new(["CLUSTER", "NAME", "ORGANISATION", "ROLES", "UNTIL"]);
    for member in members {
        let id = member.cluster.to_string();
        let id = if wide { id } else { member.cluster.short() };
        let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.row([
            id,
            dash(member.name.clone()),
            dash(member.organisation.as_ref().map(Slug::to_string)),
            roles(&member.roles),
            // The day is enough.
            if member.revoked {
                "revoked".to_owned()
            } else {
                moment(member.until_ms).chars().take(10).collect()
            },
        ]);
    }
    table.render(wide)
}
