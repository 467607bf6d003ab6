//! What a guest asks, looked up: by what is known, by what is kept of answers from elsewhere, or by
//! asking elsewhere.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, Record, RecordType};
use mercato_protocol::node::UnopenedName;

use crate::answer::{Answer, Asker, Telling, alias, answer, unopened};
use crate::cache::Cache;
use crate::guests::Guests;
use crate::knowledge::Knowledge;
use crate::limits::{self, Bounds};
use crate::places::{Place, Places};
use crate::reply::{Question, Read, Said};
use crate::unopened::Unopened;
use crate::upstreams::Upstreams;

/// All that look-ups of a node share.
pub(crate) struct Resolver {
    knowledge: RwLock<Arc<Knowledge>>,
    guests: Guests,
    /// For what is asked elsewhere.
    places: Places,
    connections: Places,
    cache: Mutex<Cache>,
    upstreams: Upstreams,
    unopened: Mutex<Unopened>,
}

/// A question of a guest that is looked up.
pub(crate) struct Asked {
    by: Asker,
    pub(crate) question: Box<Question>,
    knowledge: Arc<Knowledge>,
}

/// What comes of what a guest has sent.
pub(crate) enum Outcome {
    Said(Vec<u8>),
    /// Somebody else has to be asked, from this name on, after these records.
    Forward(Name, Vec<Record>),
    Nothing,
}

impl Resolver {
    /// It knows nothing at first.
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            knowledge: RwLock::default(),
            guests: Guests::new(bounds),
            places: Places::new(bounds.forwards, limits::FORWARDS),
            connections: Places::new(bounds.connections, limits::CONNECTIONS),
            cache: Mutex::default(),
            upstreams: Upstreams::default(),
            unopened: Mutex::default(),
        }
    }

    /// It knows this from now on, and nothing else.
    pub(crate) fn know(&self, knowledge: Knowledge) {
        self.guests.retain(|guest| knowledge.guests.contains_key(guest));
        self.upstreams.retain(|lease| knowledge.zones.contains_key(lease), &knowledge.servers);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.retain(|lease| knowledge.zones.contains_key(lease));
        drop(cache);
        self.lock_unopened().retain(|by, sought| {
            let zone = knowledge.zones.get(&by.lease);
            let is_guest = knowledge.guests.get(&by.guest) == Some(&by.lease);
            is_guest && zone.is_some_and(|zone| zone.is_unopened(&sought.namespace))
        });
        let mut known = self.knowledge.write().unwrap_or_else(PoisonError::into_inner);
        *known = Arc::new(knowledge);
    }

    fn knowledge(&self) -> Arc<Knowledge> {
        self.knowledge.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a guest may ask one more question now. Whoever is none is not counted.
    pub(crate) fn may_ask(&self, guest: IpAddr) -> bool {
        let is_guest = self.knowledge().guests.contains_key(&guest);
        !is_guest || self.guests.may_ask(guest, Instant::now())
    }

    /// What is asked; or what is said of something that is no question. None: nobody is answered.
    pub(crate) fn read(&self, guest: IpAddr, bytes: &[u8]) -> Option<Result<Asked, Vec<u8>>> {
        let knowledge = self.knowledge();
        let by = Asker { guest, lease: *knowledge.guests.get(&guest)? };
        match Question::read(bytes) {
            Read::Question(question) => Some(Ok(Asked { by, question, knowledge })),
            Read::Wrong(reply) => Some(Err(reply)),
            Read::Noise => None,
        }
    }

    /// A place for a connection of a guest; none: it has enough, or is no guest.
    pub(crate) fn connect(&self, guest: IpAddr) -> Option<Place> {
        let lease = *self.knowledge().guests.get(&guest)?;
        self.connections.take(Asker { guest, lease })
    }

    /// A place for a question that is asked elsewhere, if there is one.
    pub(crate) fn place(&self, asked: &Asked) -> Option<Place> {
        self.places.take(asked.by)
    }

    /// What is said to a question, of at most so many bytes, as far as nobody else has to be asked.
    pub(crate) fn look_up(&self, asked: &Asked, room: u16) -> Outcome {
        let message = &asked.question.message;
        let Some(query) = message.queries.first() else { return Outcome::Nothing };
        let (turn, of) = (usize::from(message.metadata.id), query.query_type);
        let (mut name, mut before) = (query.name.clone(), Vec::new());
        if matches!(of, RecordType::AXFR | RecordType::IXFR) {
            return said(asked, Said::only(ResponseCode::Refused), room);
        }
        for _ in 0..limits::ALIASES {
            let answer = answer(&asked.knowledge, asked.by, &name, of, Telling { turn, room });
            let now = match answer {
                Answer::Records(data) => Said::records(&name, data),
                Answer::NoData(origin) => Said::nothing(ResponseCode::NoError, origin),
                Answer::NoName(origin) => {
                    self.note(asked, &name);
                    Said::nothing(ResponseCode::NXDomain, origin)
                }
                Answer::NotYet => Said::failed(),
                Answer::Refused => Said::only(ResponseCode::Refused),
                Answer::Alias(other) => {
                    before.append(&mut Said::records(&name, vec![alias(other.clone())]).answers);
                    if of == RecordType::CNAME {
                        let is_own = true;
                        let only = Said { is_own, ..Said::only(ResponseCode::NoError) };
                        return said(asked, only.after(before), room);
                    }
                    name = other;
                    continue;
                }
                Answer::Elsewhere => match self.kept(asked, &name, of) {
                    Some(kept) => kept,
                    None => return Outcome::Forward(name, before),
                },
            };
            return said(asked, now.after(before), room);
        }
        said(asked, Said::failed(), room)
    }

    /// There is no such name: it is noted for its owner if its namespace is not open to the guest.
    fn note(&self, asked: &Asked, name: &Name) {
        if let Some(sought) = unopened(&asked.knowledge, asked.by, name) {
            self.lock_unopened().note(asked.by, sought, Instant::now());
        }
    }

    /// For which names of namespaces that are not open to them guests have asked lately.
    pub(crate) fn unopened(&self) -> BTreeSet<UnopenedName> {
        self.lock_unopened().lately(Instant::now())
    }

    fn lock_unopened(&self) -> MutexGuard<'_, Unopened> {
        self.unopened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self, asked: &Asked, name: &Name, of: RecordType) -> Option<Said> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut said = cache.find(&asked.by.lease, &(key(name), of), Instant::now())?;
        // It was asked for in other letters, perhaps.
        let is_it = |record: &&mut Record| record.name == *name;
        asked.knowledge.spare(&asked.by.lease, &mut said.answers);
        said.answers.iter_mut().filter(is_it).for_each(|record| record.name = name.clone());
        Some(said)
    }

    /// What is said elsewhere of a name, after these records; none: the place is another's by now.
    pub(crate) async fn forward(
        &self,
        asked: &Asked,
        name: Name,
        before: Vec<Record>,
        mut place: Place,
    ) -> Option<Said> {
        let query = asked.question.message.queries.first();
        let of = query.map_or(RecordType::A, |query| query.query_type);
        let mut said = tokio::select! {
            said = self.upstreams.ask(asked.by.lease, &asked.knowledge.servers, &name, of) => said,
            () = place.lost() => return None,
        };
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.keep(asked.by.lease, (key(&name), of), &said, Instant::now());
        drop(cache);
        asked.knowledge.spare(&asked.by.lease, &mut said.answers);
        Some(said.after(before))
    }
}

fn said(asked: &Asked, said: Said, room: u16) -> Outcome {
    asked.question.reply(said, room).map_or(Outcome::Nothing, Outcome::Said)
}

fn key(name: &Name) -> String {
    name.to_lowercase().to_ascii()
}

#[cfg(test)]
mod tests;
