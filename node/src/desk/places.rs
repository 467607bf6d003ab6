//! How many requests from a desk are under way, each user's for themselves. One is under way from when
//! it is known whose it is until its answer was taken: whoever reads nothing has no more memory of the
//! daemon's than that, and not for long. Each pod of a cluster has a token: who was allowed nothing
//! lately has one of a few places apart, until it is known whether the user may do what is asked.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::limits;
use crate::strangers::{Place, Strangers};

/// The places of all requests.
#[derive(Clone)]
pub(super) struct Places(Arc<All>);

struct All {
    room: Arc<Semaphore>,
    /// How many of these each user has.
    users: Mutex<BTreeMap<String, usize>>,
    /// When users were allowed something last.
    allowed: Mutex<BTreeMap<String, Instant>>,
    strangers: Strangers<String>,
}

/// The place of one request whose user may ask for something, until it is dropped.
pub(super) struct Entered {
    user: String,
    places: Places,
    _permit: OwnedSemaphorePermit,
}

/// The place of one request of which it is not known yet whether the user may ask for that.
pub(super) enum Waiting {
    /// The user was allowed something lately.
    Known(Entered),
    /// One of few, which somebody else may need.
    Stranger(Place<String>),
}

impl Places {
    pub(super) fn new() -> Self {
        Self(Arc::new(All {
            room: Arc::new(Semaphore::new(limits::ADMIN_REQUESTS)),
            users: Mutex::default(),
            allowed: Mutex::default(),
            strangers: Strangers::new(limits::ADMIN_STRANGERS),
        }))
    }

    /// None: there are too many of this user, or of all who were allowed something lately.
    pub(super) fn wait(&self, user: &str) -> Option<Waiting> {
        let allowed = lock(&self.0.allowed).get(user).copied();
        if allowed.is_some_and(|at| at.elapsed() < limits::ADMIN_ALLOWED) {
            return self.enter(user).map(Waiting::Known);
        }
        Some(Waiting::Stranger(self.0.strangers.enter(user.to_owned())))
    }

    /// The user is allowed what is asked. None: there are too many of this user, or of all.
    pub(super) fn is_allowed(&self, user: &str, waiting: Waiting) -> Option<Entered> {
        let mut allowed = lock(&self.0.allowed);
        allowed.insert(user.to_owned(), Instant::now());
        if allowed.len() > limits::ADMIN_USERS {
            let first = allowed.iter().min_by_key(|(_, at)| **at).map(|(user, _)| user.clone());
            first.map(|user| allowed.remove(&user));
        }
        drop(allowed);
        match waiting {
            Waiting::Known(entered) => Some(entered),
            Waiting::Stranger(_) => self.enter(user),
        }
    }

    fn enter(&self, user: &str) -> Option<Entered> {
        let permit = self.0.room.clone().try_acquire_owned().ok()?;
        let mut users = lock(&self.0.users);
        let count = users.entry(user.to_owned()).or_default();
        if *count >= limits::ADMIN_OF_USER {
            return None;
        }
        *count += 1;
        drop(users);
        Some(Entered { user: user.to_owned(), places: self.clone(), _permit: permit })
    }
}

impl Waiting {
    /// Waits until somebody else needs the place.
    pub(super) async fn is_taken(&self) {
        match self {
            Self::Known(_) => std::future::pending().await,
            Self::Stranger(place) => place.is_taken().await,
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut users = lock(&self.places.0.users);
        if let Some(count) = users.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.user);
            }
        }
    }
}

/// What is left of an answer, with its place.
type Held = Arc<Mutex<Option<(Bytes, Entered)>>>;

/// An answer that keeps its place until it was taken, a little at a time. Of one that is not, the rest
/// is given up, and the connection breaks off.
pub(super) fn taken(answer: Bytes, place: Entered, within: Duration) -> Body {
    let held: Held = Arc::new(Mutex::new(Some((answer, place))));
    let (late, mut timer) = (held.clone(), JoinSet::new());
    timer.spawn(async move {
        tokio::time::sleep(within).await;
        drop(lock(&late).take());
    });
    let next = async |(held, timer): (Held, JoinSet<()>)| {
        let mut left = lock(&held);
        let chunk = match left.as_mut() {
            Some((rest, _)) if rest.is_empty() => {
                *left = None;
                return None;
            }
            Some((rest, _)) => Ok(rest.split_to(rest.len().min(limits::ADMIN_CHUNK))),
            None => Err(io::Error::from(io::ErrorKind::TimedOut)),
        };
        drop(left);
        Some((chunk, (held, timer)))
    };
    Body::from_stream(stream::unfold((held, timer), next))
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;

    use super::*;

    fn enter(places: &Places, user: &str) -> Option<Entered> {
        places.is_allowed(user, places.wait(user)?)
    }

    #[test]
    fn a_user_has_so_many_places_and_leaves_the_rest_to_others() {
        let places = Places::new();
        let annas: Vec<_> = (0..limits::ADMIN_OF_USER).map(|_| enter(&places, "anna")).collect();
        assert!(annas.iter().all(Option::is_some) && enter(&places, "anna").is_none());
        let bens = enter(&places, "ben");
        assert!(bens.is_some());
        drop(annas);
        assert!(enter(&places, "anna").is_some());
        assert_eq!(lock(&places.0.users).len(), 1, "who asks nothing has none");
        let all: Vec<_> = (0..).map_while(|n| enter(&places, &format!("user-{n}"))).collect();
        assert_eq!(all.len(), limits::ADMIN_REQUESTS - 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_allowed_nothing_takes_no_place_of_who_is() {
        let places = Places::new();
        drop(enter(&places, "anna"));
        let crowd: Vec<_> =
            (0..400).map(|n| places.wait(&format!("pod-{}", n % 4)).unwrap()).collect();
        let is_there = |waiting: &&Waiting| waiting.is_taken().now_or_never().is_none();
        assert_eq!(crowd.iter().filter(is_there).count(), limits::ADMIN_STRANGERS);
        let annas: Vec<_> =
            (0..limits::ADMIN_OF_USER).filter_map(|_| places.wait("anna")).collect();
        assert!(annas.len() == limits::ADMIN_OF_USER && annas.iter().all(|it| is_there(&it)));
        // Who was allowed nothing before is one of the crowd until that is known, and not the first to go.
        let ben = places.wait("ben").unwrap();
        let _more: Vec<_> = (0..100).map(|_| places.wait("pod-1").unwrap()).collect();
        assert!(is_there(&&ben) && places.is_allowed("ben", ben).is_some());
        assert!(matches!(places.wait("ben"), Some(Waiting::Known(_))));
        tokio::time::advance(limits::ADMIN_ALLOWED).await;
        assert!(matches!(places.wait("ben"), Some(Waiting::Stranger(_))), "that was long ago");
    }

    #[test]
    fn so_many_users_are_remembered() {
        let places = Places::new();
        for n in 0..2 * limits::ADMIN_USERS {
            assert!(enter(&places, &format!("user-{n}")).is_some());
        }
        assert_eq!(lock(&places.0.allowed).len(), limits::ADMIN_USERS);
        assert!(matches!(places.wait("user-0"), Some(Waiting::Stranger(_))));
    }

    #[tokio::test]
    async fn an_answer_keeps_its_place_until_it_was_taken_or_given_up() {
        let places = Places::new();
        let answer = Bytes::from(vec![b'x'; limits::ADMIN_CHUNK * 2 + 1]);
        let mut body = taken(answer.clone(), enter(&places, "anna").unwrap(), limits::ADMIN_TAKEN);
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first.len(), limits::ADMIN_CHUNK, "no more is handed on at once");
        assert_eq!(lock(&places.0.users).len(), 1);
        assert_eq!(first.len() + body.collect().await.unwrap().to_bytes().len(), answer.len());
        assert_eq!(lock(&places.0.users).len(), 0);
        let mut late = taken(answer, enter(&places, "anna").unwrap(), Duration::ZERO);
        let is_given_up = async {
            while !lock(&places.0.users).is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(limits::ADMIN_TAKEN, is_given_up).await.expect("its place is kept");
        assert!(late.frame().await.unwrap().is_err(), "it is no end of the answer");
    }
}
