//! What the owner asks about federations.

use mercato_agent::{Answer as Answered, Ask, FederationRefusal, Grant, Joined};
use mercato_protocol::ad::Attribute;
use mercato_protocol::certificate::Role;
use mercato_protocol::id::{FederationId, NegotiationId};
use mercato_protocol::join::{JoinRefusal, JoinToken, Secret};
use mercato_protocol::text::Slug;

use super::OperatorService;
use crate::admin::{
    Answer, Attention, AttentionKind as Kind, Class, EventFederation, Problem, Token,
};
use crate::driver::{Driver, clock};
use crate::limits;
use crate::present::text::span;

/// Nobody can be told where to connect.
pub(super) const UNREACHABLE: &str = "no address of this daemon can be reached from elsewhere";
/// What to do about it.
pub(super) const PUBLIC_ADDRESS: &str =
    "say where others reach it: mercato run --public-address HOST[:PORT]";

impl OperatorService {
    pub(super) async fn federations(&self) -> Result<Answer, Problem> {
        let look = |driver: &Driver| driver.agent().federations();
        Ok(Answer::Federations(self.driver.look(look).await?))
    }

    pub(super) async fn members(&self, of: FederationId) -> Result<Answer, Problem> {
        let look = move |driver: &Driver| driver.agent().members(&of, driver.now());
        let members = self.driver.look(look).await?;
        Ok(Answer::Members(members.ok_or(FederationRefusal::Unknown)?))
    }

    pub(super) async fn join(&self, token: &str) -> Result<Answer, Problem> {
        let token: JoinToken = token.parse().map_err(|error| {
            Problem::new(Class::Usage, format!("that is no join token: {error}"))
                .todo("ask the one who sent it for another: mercato federation token")
        })?;
        self.federation(Ask::Join(Box::new(token))).await
    }

    pub(super) async fn token(
        &self,
        federation: FederationId,
        organisation: Option<Slug>,
        roles: Vec<Role>,
        attributes: Vec<Attribute>,
        for_s: u64,
    ) -> Result<Answer, Problem> {
        let secret = Secret(NegotiationId(rand::random()));
        let expires_ms = clock::wall().wall_ms.saturating_add(for_s.saturating_mul(1_000));
        let grant = Grant { organisation, roles, attributes, expires_ms };
        let addresses = self.driver.net().published_addresses();
        if addresses.is_empty() {
            return Err(Problem::failed(UNREACHABLE).todo(PUBLIC_ADDRESS));
        }
        let addresses = addresses.iter().map(ToString::to_string).collect();
        self.federation(Ask::Token { federation, secret, grant, addresses }).await
    }

    /// What needs the owner's attention: memberships that end.
    pub(super) async fn ending(&self) -> Result<Vec<Attention>, Problem> {
        let now_ms = clock::wall().wall_ms;
        let soon_ms = now_ms + limits::ENDING_MS;
        let federations = self.driver.look(|driver| driver.agent().federations()).await?;
        let ends = |of: &Joined| of.until_ms.is_some_and(|until_ms| until_ms < soon_ms);
        let about = |of: &Joined, kind, text| Attention {
            federation: Some(EventFederation { id: of.id, name: of.name.clone() }),
            until_ms: of.until_ms,
            ..Attention::of(kind, text)
        };
        let attention = |of: Joined| match (&of.refused, of.roles.contains(&Role::Registrar)) {
            (Some(why), _) => {
                let text = format!("the membership in {} is not renewed: {why}", of.name);
                let refused = about(&of, Kind::MembershipNotRenewed, text);
                Some(Attention { reason: Some(why.clone()), ..refused })
            }
            (None, true) if ends(&of) => {
                let text = format!("the right of this registrar of {} ends soon", of.name);
                let renew = "mercato federation registrar ROOT-KEY";
                Some(about(&of, Kind::RegistrarEnding, text).command(renew))
            }
            (None, false) => match of.until_ms {
                None if of.was_certified => {
                    let text = format!(
                        "not a member of {} any more: its certificate was revoked or has \
                         expired; to join again",
                        of.name
                    );
                    let join = "mercato federation join TOKEN";
                    Some(about(&of, Kind::MembershipLost, text).command(join))
                }
                Some(until_ms) if until_ms < now_ms + limits::MEMBERSHIP_ENDING_MS => {
                    let text = format!(
                        "the membership in {} ends in {} and is not renewed yet: is its registrar up?",
                        of.name,
                        span(until_ms.saturating_sub(now_ms))
                    );
                    Some(about(&of, Kind::MembershipEnding, text))
                }
                None | Some(_) => None,
            },
            (None, true) => None,
        };
        Ok(federations.into_iter().filter_map(attention).collect())
    }

    pub(super) async fn federation(&self, ask: Ask) -> Result<Answer, Problem> {
        match self.driver.ask(ask).await? {
            Answered::Done => {
                self.domains.follow(&self.driver).await?;
                Ok(Answer::Done)
            }
            Answered::Token(token) => {
                let expires_ms = token.expires_ms;
                Ok(Answer::Token(Token { token: token.to_string(), expires_ms }))
            }
            Answered::Refused(refusal) => Err(refusal.into()),
            Answered::Join(_) => Err(Problem::failed("that is a question of peers")),
        }
    }
}

impl From<FederationRefusal> for Problem {
    fn from(refusal: FederationRefusal) -> Self {
        use FederationRefusal as Refusal;
        let (class, todo) = match refusal {
            Refusal::Unknown => (Class::NoMatch, "which there are: mercato federation"),
            Refusal::Papers => {
                (Class::Failed, "the token may be of another federation, or your own")
            }
            Refusal::TooLarge(_) => {
                (Class::Failed, "ask the registrar's owner to look at its lists")
            }
            Refusal::Degraded => {
                (Class::Failed, "see what is wrong with the data folder: mercato status")
            }
            Refusal::Interrupted => (Class::Failed, "why: mercato status; then ask again"),
            Refusal::TooMany => (Class::Failed, "leave one first: mercato federation leave"),
            Refusal::NoRegistrar => (
                Class::Failed,
                "ask on the registrar's machine, or make this one: mercato \
                 federation registrar",
            ),
            Refusal::Registrar => {
                (Class::Failed, "its right ends with its certificate: mercato federation")
            }
            Refusal::NoToken => (
                Class::Failed,
                "wait until some of those handed out are used, or over: a day at most",
            ),
            Refusal::NoRole => (Class::Usage, "which it has itself: mercato federation"),
            Refusal::NotVouched => {
                let todo = "the root key gives it that: mercato federation registrar ROOT-KEY \
                            --attribute NAME=VALUE";
                (Class::Refused, todo)
            }
            Refusal::NoMember => (Class::NoMatch, "whom it let in: mercato federation members"),
            Refusal::Join(JoinRefusal::Unknown | JoinRefusal::Expired) => (
                Class::Refused,
                "a token is good once, for a day: ask the registrar's owner for another",
            ),
            Refusal::Join(JoinRefusal::Revoked) => {
                (Class::Refused, "only the registrar's owner can say why")
            }
            Refusal::Join(_) => (Class::Refused, "ask the registrar's owner to look at its log"),
            Refusal::Unanswered => {
                (Class::TimedOut, "see whether it can be reached: mercato peer ping HOST:PORT")
            }
        };
        Self::new(class, refusal.to_string()).todo(todo)
    }
}
