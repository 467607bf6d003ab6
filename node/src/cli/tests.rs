//! Commands against a scripted api, over a real socket: what is asked, what is shown.

#![allow(clippy::wildcard_enum_match_arm, reason = "a script is of a few requests")]

mod bills;
mod change;
mod every;
mod federation;
mod market;
mod namespaces;
mod shown;
mod words;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_agent::{Joined, Listed};
use mercato_broker::{Market, Refusal, Side, Standing, StorageClass};
use mercato_protocol::id::PublicKey;
use mercato_protocol::negotiation::State;

use super::args::{Cli, Command};
use super::screen::Screen;
use super::table::WIDTH;
pub(super) use crate::admin::samples::{ORDER, TURIN, deal, status, tunnel};
use crate::admin::{
    Answer, Class, Client, Deal, Found, Leaving, OperatorApi, Peer, Problem, Request, Server,
    Share, Token, TunnelLink,
};

/// Answers from a script, and keeps what it was asked.
#[derive(Default)]
struct Script {
    asked: Mutex<Vec<Request>>,
    /// One for each look at the deals; the last one stays.
    states: Mutex<Vec<State>>,
    /// In the place of one that is in such a state.
    deal: Mutex<Option<Deal>>,
    refuses: Option<Refusal>,
    side: Option<Side>,
    market: Market,
    federations: Vec<Joined>,
    members: Vec<Listed>,
    /// What becomes of pods of a namespace that may leave.
    leaving: Leaving,
    /// Pods that stay behind when a namespace comes home.
    stranded: Vec<String>,
}

impl OperatorApi for Script {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        self.asked.lock().unwrap().push(request.clone());
        let answer = match request {
            Request::Status => Ok(Answer::Status(status())),
            Request::Peers => Ok(Answer::Peers(vec![peer()])),
            Request::Browse { .. } => Ok(Answer::Offers(self.market.clone())),
            Request::Providers => Ok(Answer::Providers(Vec::new())),
            Request::Share => Ok(Answer::Share(Share {
                policy: None,
                ruled: false,
                enforces_egress: false,
                on_sale: Vec::new(),
                unsold: Vec::new(),
                storage: StorageClass::default(),
                devices: Vec::new(),
                unknown: Vec::new(),
            })),
            Request::Deals => {
                if let Some(deal) = self.deal.lock().unwrap().clone() {
                    return async move { Ok(Answer::Deals(vec![deal])) }.boxed();
                }
                let mut states = self.states.lock().unwrap();
                let state =
                    if states.len() > 1 { Some(states.remove(0)) } else { states.last().copied() };
                Ok(Answer::Deals(state.map(|state| self.deal(state)).into_iter().collect()))
            }
            Request::Order { .. } => match &self.refuses {
                Some(refusal) => Err(refusal.clone().into()),
                None => Ok(Answer::Ordered { id: ORDER, provider: TURIN }),
            },
            Request::Events(_) => Ok(Answer::Events(Vec::new())),
            Request::Federations => Ok(Answer::Federations(self.federations.clone())),
            Request::Members(_) => Ok(Answer::Members(self.members.clone())),
            Request::Offload(_) => Ok(Answer::Leaving(self.leaving.clone())),
            Request::Unoffload(_) if !self.stranded.is_empty() => {
                Ok(Answer::Stranded(self.stranded.clone()))
            }
            Request::Token { .. } => {
                let (token, expires_ms) = ("mercato-join-x".to_owned(), 1_795_161_600_000);
                Ok(Answer::Token(Token { token, expires_ms }))
            }
            _ => Ok(Answer::Done),
        };
        async move { answer }.boxed()
    }
}

impl Script {
    fn deal(&self, state: State) -> Deal {
        Deal { side: self.side.unwrap_or(Side::Consumer), ..deal(state) }
    }
}

fn peer() -> Peer {
    Peer {
        cluster: Some(TURIN),
        key: Some(PublicKey([2; 32])),
        name: Some("turin".to_owned()),
        standing: Standing::Stranger,
        jurisdiction: None,
        found: vec![Found::Mdns],
        addresses: vec!["/ip4/192.0.2.2/udp/7474/quic-v1".to_owned()],
        connected: Some("/ip4/192.0.2.2/udp/7474/quic-v1".to_owned()),
        rtt_us: Some(12_345),
        ahead_ms: Some(-20),
        tunnel: Some(tunnel(TunnelLink::Up)),
    }
}

/// What a command line prints, through a server and a client on a socket.
fn mercato<D: OperatorApi + 'static>(api: &Arc<D>, line: &str) -> Result<String, Problem> {
    let cli = Cli::try_parse_from(["mercato"].into_iter().chain(line.split(' '))).unwrap();
    let Command::Ask(asked) = cli.command else { panic!("this asks no daemon") };
    let screen = Screen::new(&cli.global);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let _server = Server::start(&socket, api.clone()).unwrap();
        let client = Client::new(socket, Duration::from_secs(30));
        super::ask(&client, &screen, &cli.global, asked).await
    })
}

fn script(states: &[State]) -> Arc<Script> {
    Arc::new(Script { states: Mutex::new(states.to_vec()), ..Script::default() })
}

/// The last thing asked that was not a look.
fn told(api: &Script) -> Option<Request> {
    let asked = api.asked.lock().unwrap();
    let looks = |request: &&Request| {
        !matches!(
            request,
            Request::Peers
                | Request::Providers
                | Request::Deals
                | Request::Share
                | Request::Status
                | Request::Federations
                | Request::Members(_)
        )
    };
    asked.iter().rev().find(looks).cloned()
}

fn fits(text: &str) {
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
}

#[test]
fn peers_are_a_table() {
    let text = mercato(&script(&[]), "peers").unwrap();
    assert_eq!(
        text,
        "NAME   CLUSTER   TRUST     FOUND BY  REACHED  RTT   TUNNEL  ADDRESS\n\
         turin  4f4f4f4f  stranger  mdns      direct   12ms  up      /ip4/192.0.2.2/udp/…\n"
    );
    fits(&text);
    let wide = mercato(&script(&[]), "peers -o wide").unwrap();
    assert!(wide.contains(&TURIN.to_string()), "{wide}");
}

#[test]
fn status_is_one_screen() {
    let asked = Arc::new(Script { side: Some(Side::Provider), ..Script::default() });
    asked.states.lock().unwrap().push(State::Review);
    let text = mercato(&asked, "status").unwrap();
    fits(&text);
    for part in [
        "rome (mercato 0.1.0)\n",
        "  peers         1 known, 1 connected, 0 trusted\n",
        "  gateway       UDP port 7475, pods as 10.200.0.0/13 and\n                fd4d:6572:6361:746f::/96\n",
        "  isolation     guests are closed on all 2 nodes: required can be sold\n",
        "  etcd          guests fill 3Mi of 512Mi\n                turin 3Mi of 4Mi\n",
        "3f3f3f3f  sells to  turin  in review  8 cpu 32Gi",
        "TUNNEL TO  LINK  SINCE ",
        "  12ms  7        192.0.2.2:7475\n",
        "Needs attention:\n  no cluster\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn programs_get_all_of_it() {
    let api = script(&[State::Active]);
    let text = mercato(&api, "contracts -o json").unwrap();
    let deals: Vec<Deal> = serde_json::from_str(&text).unwrap();
    assert_eq!(deals, [deal(State::Active)]);
    let yaml = mercato(&api, "contracts show 3f -o yaml").unwrap();
    assert!(yaml.contains("state: active\n"), "{yaml}");
    assert_eq!(mercato(&api, "contracts cancel 3f --yes -o json").unwrap(), "");
}

#[test]
fn contracts_are_shown_and_ended() {
    let api = script(&[State::Active]);
    let text = mercato(&api, "contracts").unwrap();
    fits(&text);
    let (head, line) = text.split_once('\n').unwrap();
    assert!(head.starts_with("ID        SIDE       WITH   STATE   WHAT "), "{text}");
    assert!(line.starts_with("3f3f3f3f  buys from  turin  active  8 cpu 32Gi"), "{text}");
    assert!(line.ends_with("  0.64 EUR\n"), "{text}");
    fits(&mercato(&api, "contracts show 3f").unwrap());
    // Nobody is there to be asked.
    let problem = mercato(&api, "contracts cancel 3f").unwrap_err();
    assert_eq!((problem.class, told(&api)), (Class::Usage, None));
    mercato(&api, "contracts cancel 3f --reason early --yes").unwrap();
    assert_eq!(told(&api), Some(Request::Cancel(ORDER, "early".parse().unwrap())));
    let over = script(&[State::Closed]);
    assert_eq!(mercato(&over, "contracts").unwrap(), "nothing is ordered, bought or sold now\n");
    assert_eq!(mercato(&over, "contracts cancel 3f --yes").unwrap_err().class, Class::NoMatch);
}

#[test]
fn requests_are_answered() {
    let api = Arc::new(Script { side: Some(Side::Provider), ..Script::default() });
    api.states.lock().unwrap().push(State::Review);
    let text = mercato(&api, "requests").unwrap();
    fits(&text);
    assert!(text.contains("3f3f3f3f  turin  8 cpu 32Gi  4h   0.64 EUR"), "{text}");
    mercato(&api, "requests accept 3f3").unwrap();
    assert_eq!(told(&api), Some(Request::Accept(ORDER)));
    mercato(&api, "requests deny 3f3 --reason no").unwrap();
    assert_eq!(told(&api), Some(Request::Deny(ORDER, "no".parse().unwrap())));
    let nothing = mercato(&api, "requests accept 77").unwrap_err();
    assert_eq!(nothing.class, Class::NoMatch);
}

#[test]
fn an_order_stops_at_an_unknown_key() {
    let refuses =
        Refusal::Untrusted { provider: TURIN, name: "turin".to_owned(), key: PublicKey([2; 32]) };
    let api = Arc::new(Script { refuses: Some(refuses), ..Script::default() });
    let problem = mercato(&api, "order --cpu 8 --memory 32Gi --for 4h").unwrap_err();
    assert_eq!(problem.class, Class::Failed, "this side stops, nobody refuses");
    let text = problem.to_string();
    fits(&text);
    let digits: String = text.split_whitespace().filter(|part| *part == "4f4f").collect();
    assert_eq!(digits, TURIN.to_string(), "{text}");
    assert!(text.ends_with("mercato peer trust 4f4f4f4f4f4f"), "{text}");
    assert_eq!(mercato(&api, "peer trust 4f4f").unwrap_err().class, Class::Usage);
    mercato(&api, "peer trust turin --yes").unwrap();
    assert_eq!(told(&api), Some(Request::Judge(TURIN, Standing::Trusted)));
    mercato(&api, "peer trust turin --yes --jurisdiction IT").unwrap();
    let asked = api.asked.lock().unwrap();
    let of = asked.iter().rev().find(|asked| matches!(asked, Request::Place(..)));
    assert_eq!(of, Some(&Request::Place(TURIN, Some("IT".to_owned()))));
}

#[test]
fn an_order_is_followed_until_its_node_is_ready() {
    use State::{Active, Agreed, Pending, Requested, Review, Terminated};
    const ORDERED: &str = "order --cpu 8 --memory 32Gi --for 4h";
    let api = script(&[Requested, Review, Agreed, Pending, Active]);
    assert_eq!(mercato(&api, &format!("{ORDERED} --wait")).unwrap(), "3f3f3f3f\n");
    assert_eq!(api.states.lock().unwrap().as_slice(), [Active]);
    let denied = mercato(&script(&[Review, Terminated]), &format!("{ORDERED} --wait")).unwrap_err();
    assert_eq!(denied.class, Class::Refused);
    assert!(denied.what.ends_with("denied by owner (not today)"), "{denied}");
    let late = mercato(&script(&[Review]), &format!("{ORDERED} --wait --timeout 1s")).unwrap_err();
    assert_eq!(late.class, Class::TimedOut);
    let little = mercato(&script(&[]), "order --cpu 8 --for 4h").unwrap_err();
    assert_eq!(little.class, Class::Usage);
}

#[test]
fn what_is_watched_ends_when_the_time_is_over() {
    for line in ["events -w", "peers -w", "browse -w"] {
        assert_eq!(mercato(&script(&[]), &format!("{line} --timeout 1s")).unwrap(), "");
    }
}

#[test]
fn what_is_shared_changes_only_where_it_is_said() {
    let api = script(&[]);
    mercato(&api, "share set --cpu 30% --memory 8Gi --approve auto --allow 4f").unwrap();
    let Some(Request::SetShare(Some(policy))) = told(&api) else { panic!("nothing is set") };
    let said = mercato_config::Share {
        cpu: Some(mercato_broker::Amount::Percent(30)),
        memory: Some(mercato_broker::Amount::Exactly(8 << 30)),
        approve: mercato_broker::Approve::Auto,
        allow: [mercato_broker::Party::Cluster(TURIN)].into(),
        ..mercato_config::Share::default()
    };
    assert_eq!(policy, said.policy());
    assert_eq!(mercato(&api, "share set --cpu 8").unwrap_err().class, Class::Usage);
    let ruled = |line: &str| {
        mercato(&api, &format!("share set --cpu 30% --memory 8Gi {line}")).unwrap();
        let Some(Request::SetShare(Some(policy))) = told(&api) else { panic!("nothing is set") };
        let said = |rule| crate::present::text::rule(rule, &policy.price);
        policy.rules.iter().map(said).collect::<Vec<_>>()
    };
    let rules = ruled("--rule federation=italia:ask --rule 4f,stranger:deny");
    assert_eq!(rules.len(), 2);
    assert_eq!(rules[0], "ask: federation=italia");
    assert!(rules[1].starts_with("deny: 4f4f4f4f"), "{rules:?}");
    assert_eq!(ruled("--no-rules"), [""; 0]);
}
