//! One picture of what the daemon says, for all tabs: asked for when somebody looks, and no more than
//! once a second. When the daemon does not answer, the last picture stays, with its time.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::admin::{
    Answer, Class, Deal, Event, EventKind, OperatorApi, Peer, Problem, Request, Share, Status,
};
use crate::limits;
use crate::present::text::now_ms;

/// A part of the picture: what is known, or why it is not to be seen.
pub(super) type Part<T> = Result<T, Problem>;

/// What the daemon said last.
#[derive(Clone)]
pub(super) struct Picture {
    /// A number that rises with each change.
    pub(super) number: u64,
    /// When the daemon answered last, in milliseconds since 1970; none: it never has.
    pub(super) at_ms: Option<u64>,
    pub(super) status: Part<Arc<Status>>,
    pub(super) deals: Part<Arc<Vec<Deal>>>,
    pub(super) peers: Part<Arc<Vec<Peer>>>,
    pub(super) share: Part<Arc<Share>>,
    /// The last events, the newest last.
    pub(super) events: Part<Arc<VecDeque<Event>>>,
    /// Why the daemon does not answer; none: it does.
    pub(super) trouble: Option<Trouble>,
    /// The number at which what is on the market was another last.
    pub(super) market: u64,
}

/// The daemon does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) problem: Problem,
    pub(super) since_ms: u64,
}

/// Asks the daemon for all tabs.
pub(super) struct Memory {
    api: Arc<dyn OperatorApi>,
    quiet: Quiet,
    state: Mutex<State>,
}

/// The same daemon, by a client that begins no login.
struct Quiet(Arc<dyn OperatorApi>);

impl OperatorApi for Quiet {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        self.0.ask_quietly(request)
    }
}

struct State {
    picture: Picture,
    asked: Option<Instant>,
    /// When what changes seldom was asked for.
    whole: Option<Instant>,
    last_event: u64,
    /// The daemon was away: it may have begun to count events anew.
    was_away: bool,
}

impl Memory {
    pub(super) fn new(api: Arc<dyn OperatorApi>) -> Self {
        let unasked = || Problem::failed("the daemon has not been asked yet");
        let picture = Picture {
            number: 0,
            at_ms: None,
            status: Err(unasked()),
            deals: Err(unasked()),
            peers: Err(unasked()),
            share: Err(unasked()),
            events: Err(unasked()),
            trouble: None,
            market: 0,
        };
        let state = State { picture, asked: None, whole: None, last_event: 0, was_away: false };
        Self { quiet: Quiet(api.clone()), api, state: Mutex::new(state) }
    }

    /// The client by which screens ask for what is not in the picture: a login is begun by the first
    /// look, and by a person who asks for it.
    pub(super) fn api(&self) -> &dyn OperatorApi {
        &self.quiet
    }

    /// The picture, not older than a second where the daemon answers.
    pub(super) async fn look(&self) -> Picture {
        let mut state = self.state.lock().await;
        let recent = state.asked.is_some_and(|at| at.elapsed() < limits::PAGE_LOOK);
        if !recent {
            let api: &dyn OperatorApi =
                if state.asked.is_some() { &self.quiet } else { &*self.api };
            state.ask(api).await;
            state.asked = Some(Instant::now());
        }
        state.picture.clone()
    }

    /// The picture as it is now: a person has asked for it, and answers for a login.
    pub(super) async fn again(&self) -> Picture {
        let mut state = self.state.lock().await;
        state.ask(&*self.api).await;
        state.asked = Some(Instant::now());
        state.picture.clone()
    }
}

impl State {
    /// Status and events each time; the rest when something has happened, or after a while.
    async fn ask(&mut self, api: &dyn OperatorApi) {
        let status = match api.status().await {
            Err(problem) if is_gone(&problem) => return self.gone(problem),
            status => status.map(Arc::new),
        };
        let mut picture = self.picture.clone();
        let news = match api.events(if self.was_away { 0 } else { self.last_event }).await {
            Err(problem) if is_gone(&problem) => return self.gone(problem),
            news => news,
        };
        let happened = !matches!(&news, Ok(news) if news.is_empty());
        let sells = matches!(&news, Ok(news) if news.iter().any(|event| is_of_market(event.kind)));
        self.remember(&mut picture, news);
        let old = self.whole.is_none_or(|at| at.elapsed() >= limits::PAGE_WHOLE);
        if happened || old || picture.trouble.is_some() {
            picture.deals = api.deals().await.map(Arc::new);
            picture.peers = api.peers().await.map(Arc::new);
            picture.share = api.share().await.map(Arc::new);
            let parts = [picture.deals.as_ref().err(), picture.peers.as_ref().err()];
            if let Some(problem) = parts.into_iter().flatten().find(|problem| is_gone(problem)) {
                return self.gone(problem.clone());
            }
            self.whole = Some(Instant::now());
        }
        let changed = happened || old || picture.trouble.is_some() || picture.status != status;
        picture.status = status;
        picture.number += u64::from(changed);
        picture.at_ms = Some(now_ms());
        let was_away = picture.trouble.take().is_some();
        if sells || was_away {
            picture.market = picture.number;
        }
        self.picture = picture;
    }

    /// Takes what has happened since, of which so much is kept.
    fn remember(&mut self, picture: &mut Picture, news: Part<Vec<Event>>) {
        let news = match news {
            Ok(news) => news,
            Err(problem) => {
                picture.events = Err(problem);
                return;
            }
        };
        let known = picture.events.as_ref().map(Arc::clone).unwrap_or_default();
        if news.is_empty() && picture.events.is_ok() {
            return;
        }
        let mut events = if self.was_away { VecDeque::new() } else { VecDeque::clone(&known) };
        self.was_away = false;
        self.last_event = news.last().map_or(self.last_event, |event| event.number);
        events.extend(news);
        let beyond = events.len().saturating_sub(limits::PAGE_EVENTS);
        events.drain(..beyond);
        picture.events = Ok(Arc::new(events));
    }

    /// The last picture stays, with why it is old.
    fn gone(&mut self, problem: Problem) {
        let since_ms = self.picture.trouble.as_ref().map_or_else(now_ms, |old| old.since_ms);
        let trouble = Some(Trouble { problem, since_ms });
        self.picture.number += u64::from(self.picture.trouble != trouble);
        self.picture.trouble = trouble;
        self.was_away = true;
    }
}

/// Whether nobody answered, rather than refused.
pub(super) fn is_gone(problem: &Problem) -> bool {
    matches!(problem.class, Class::Unreachable | Class::TimedOut)
}

/// Whether another offer may be on the market since.
fn is_of_market(kind: EventKind) -> bool {
    let kinds = [
        EventKind::OfferPublished,
        EventKind::OfferWithdrawn,
        EventKind::PeerTrusted,
        EventKind::PeerBlocked,
        EventKind::PeerForgotten,
        EventKind::PeerBanned,
    ];
    kinds.contains(&kind)
}
