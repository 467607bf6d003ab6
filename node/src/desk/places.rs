//! How many requests from a desk are under way, each user's for themselves. One is under way from when
//! it is known whose it is until its answer was taken: whoever reads nothing has no more memory of the
//! daemon's than that, and not for long.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::limits;

/// The places of all requests.
#[derive(Clone)]
pub(super) struct Places {
    room: Arc<Semaphore>,
    users: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// The place of one request, until it is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    user: String,
    users: Arc<Mutex<BTreeMap<String, usize>>>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new() -> Self {
        let room = Arc::new(Semaphore::new(limits::ADMIN_REQUESTS));
        Self { room, users: Arc::default() }
    }

    /// None: there are too many of this user, or of all.
    pub(super) fn enter(&self, user: &str) -> Option<Entered> {
        let permit = self.room.clone().try_acquire_owned().ok()?;
        let mut users = lock(&self.users);
        let count = users.entry(user.to_owned()).or_default();
        if *count >= limits::ADMIN_OF_USER {
            return None;
        }
        *count += 1;
        Some(Entered { user: user.to_owned(), users: self.users.clone(), _permit: permit })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut users = lock(&self.users);
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
    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn a_user_has_so_many_places_and_leaves_the_rest_to_others() {
        let places = Places::new();
        let annas: Vec<_> = (0..limits::ADMIN_OF_USER).map(|_| places.enter("anna")).collect();
        assert!(annas.iter().all(Option::is_some) && places.enter("anna").is_none());
        let bens = places.enter("ben");
        assert!(bens.is_some());
        drop(annas);
        assert!(places.enter("anna").is_some());
        assert_eq!(lock(&places.users).len(), 1, "who asks nothing is not remembered");
        let all: Vec<_> = (0..).map_while(|n| places.enter(&format!("user-{n}"))).collect();
        assert_eq!(all.len(), limits::ADMIN_REQUESTS - 1);
    }

    #[tokio::test]
    async fn an_answer_keeps_its_place_until_it_was_taken_or_given_up() {
        let places = Places::new();
        let answer = Bytes::from(vec![b'x'; limits::ADMIN_CHUNK * 2 + 1]);
        let mut body = taken(answer.clone(), places.enter("anna").unwrap(), limits::ADMIN_TAKEN);
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first.len(), limits::ADMIN_CHUNK, "no more is handed on at once");
        assert_eq!(lock(&places.users).len(), 1);
        assert_eq!(first.len() + body.collect().await.unwrap().to_bytes().len(), answer.len());
        assert_eq!(lock(&places.users).len(), 0);
        let mut late = taken(answer, places.enter("anna").unwrap(), Duration::ZERO);
        let is_given_up = async {
            while !lock(&places.users).is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(limits::ADMIN_TAKEN, is_given_up).await.expect("its place is kept");
        assert!(late.frame().await.unwrap().is_err(), "it is no end of the answer");
    }
}
