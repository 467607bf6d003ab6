//! The name server: its sockets, and who is answered on them. Whoever is no guest hears nothing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, Record, RecordType};
use mercato_protocol::id::ContractId;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::answer::{Answer, Asker, alias, answer};
use crate::cache::Cache;
use crate::guests::{Guests, Place};
use crate::knowledge::Knowledge;
use crate::limits::{self, Bounds};
use crate::reply::{Question, Read, Said};
use crate::{forward, stream};

/// A name server that answers guests until it is dropped.
pub struct NameServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    tasks: JoinSet<()>,
}

struct Shared {
    knowledge: RwLock<Arc<Knowledge>>,
    guests: Guests,
    cache: Mutex<Cache>,
}

impl NameServer {
    /// Answers there from now on, by UDP and TCP, nobody at first. No other program has this port then,
    /// neither there nor at all addresses: none of the two is shared with anybody.
    ///
    /// # Errors
    /// When it cannot listen there: the address is not on this machine, or another program listens.
    pub async fn start(at: SocketAddr, bounds: Bounds) -> io::Result<Self> {
        let datagrams = UdpSocket::bind(at).await.map_err(|error| told(error, at))?;
        let address = datagrams.local_addr()?;
        // The kernel gives what the machine allows.
        SockRef::from(&datagrams).set_recv_buffer_size(limits::RECEIVE_BYTES)?;
        let connections = TcpListener::bind(address).await.map_err(|error| told(error, address))?;
        let shared = Arc::new(Shared {
            knowledge: RwLock::default(),
            guests: Guests::new(bounds),
            cache: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(answer_datagrams(datagrams, shared.clone()));
        tasks.spawn(answer_connections(connections, shared.clone()));
        Ok(Self { shared, address, tasks })
    }

    /// Where it answers: an address and a port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// It knows this from now on, and nothing else.
    pub fn know(&self, knowledge: Knowledge) {
        self.shared.guests.retain(|guest| knowledge.guests.contains_key(guest));
        let mut cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.retain(|lease| knowledge.zones.contains_key(lease));
        drop(cache);
        let mut known = self.shared.knowledge.write().unwrap_or_else(PoisonError::into_inner);
        *known = Arc::new(knowledge);
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.tasks.try_join_next().is_some()
    }
}

/// Why it cannot listen, and what to do.
fn told(error: io::Error, at: SocketAddr) -> io::Error {
    let more = if error.kind() == io::ErrorKind::PermissionDenied {
        "the process needs CAP_NET_BIND_SERVICE (securityContext.capabilities.add: \
         [NET_BIND_SERVICE])"
            .to_owned()
    } else if error.kind() == io::ErrorKind::AddrInUse {
        format!(
            "another program listens there, or at this port of all addresses (ss -lntup sport = :{}): \
             have it listen at its own addresses alone",
            at.port()
        )
    } else {
        return error;
    };
    io::Error::new(error.kind(), format!("{error}: {more}"))
}

/// A question of a guest that is looked up.
struct Asked {
    guest: IpAddr,
    lease: ContractId,
    question: Box<Question>,
    knowledge: Arc<Knowledge>,
}

/// What comes of what a guest has sent.
enum Outcome {
    Said(Vec<u8>),
    /// Somebody else has to be asked, from this name on, after these records.
    Forward(Name, Vec<Record>),
    Nothing,
}

async fn answer_datagrams(socket: UdpSocket, shared: Arc<Shared>) {
    let socket = Arc::new(socket);
    let mut buffer = [0; limits::QUESTION_BYTES];
    let mut forwards = JoinSet::new();
    loop {
        while forwards.try_join_next().is_some() {}
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                // That nobody hears what was said there before, most often.
                tracing::trace!(%error, "nothing was received");
                tokio::task::yield_now().await;
                continue;
            }
        };
        let Some(asked) = shared.take(from.ip(), &buffer[..length]) else { continue };
        let asked = match asked {
            Ok(asked) => asked,
            Err(wrong) => {
                send(&socket, &wrong, from).await;
                continue;
            }
        };
        let room = asked.question.room();
        match shared.look_up(&asked, room) {
            Outcome::Said(reply) => send(&socket, &reply, from).await,
            Outcome::Nothing => {}
            Outcome::Forward(name, before) => {
                let Some(place) = shared.guests.forward(asked.guest, Instant::now()) else {
                    continue;
                };
                let (shared, socket) = (shared.clone(), socket.clone());
                forwards.spawn(async move {
                    let said = shared.forward(&asked, name, before, place).await;
                    if let Some(reply) = asked.question.reply(&said, room) {
                        send(&socket, &reply, from).await;
                    }
                });
            }
        }
    }
}

/// Whoever hears nothing asks again.
async fn send(socket: &UdpSocket, reply: &[u8], to: SocketAddr) {
    if let Err(error) = socket.send_to(reply, to).await {
        tracing::trace!(%to, %error, "an answer is lost");
    }
}

async fn answer_connections(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((connection, from)) => {
                let guest = from.ip();
                let is_guest = shared.knowledge().guests.contains_key(&guest);
                let place = is_guest.then(|| shared.guests.connect(guest, Instant::now()));
                // Without a place it is closed.
                let Some(place) = place.flatten() else { continue };
                let shared = shared.clone();
                connections.spawn(async move {
                    let done = converse(connection, guest, &shared).await;
                    drop(place);
                    if let Err(error) = done {
                        tracing::trace!(%guest, %error, "a connection has ended");
                    }
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                sleep(limits::ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Answers what is asked on a connection, one question after the other.
async fn converse(mut connection: TcpStream, guest: IpAddr, shared: &Shared) -> io::Result<()> {
    loop {
        let asked = stream::read(&mut connection, limits::QUESTION_BYTES);
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let Some(asked) = timeout(limits::CONNECTION_IDLE, asked).await.map_err(late)?? else {
            return Ok(());
        };
        let Some(asked) = shared.take(guest, &asked) else { return Ok(()) };
        let reply = match asked {
            Err(wrong) => Some(wrong),
            Ok(asked) => match shared.look_up(&asked, u16::MAX) {
                Outcome::Said(reply) => Some(reply),
                Outcome::Nothing => None,
                Outcome::Forward(name, before) => {
                    let place = shared.guests.forward(guest, Instant::now());
                    let said = match place {
                        Some(place) => shared.forward(&asked, name, before, place).await,
                        None => Said::failed(),
                    };
                    asked.question.reply(&said, u16::MAX)
                }
            },
        };
        let Some(reply) = reply else { return Ok(()) };
        let written = stream::write(&mut connection, &reply);
        timeout(limits::CONNECTION_WRITE, written).await.map_err(late)??;
    }
}

impl Shared {
    fn knowledge(&self) -> Arc<Knowledge> {
        self.knowledge.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is asked; or what is said of something that is no question. None: nobody is answered.
    fn take(&self, guest: IpAddr, bytes: &[u8]) -> Option<Result<Asked, Vec<u8>>> {
        let knowledge = self.knowledge();
        let lease = *knowledge.guests.get(&guest)?;
        if !self.guests.may_ask(guest, Instant::now()) {
            return None;
        }
        match Question::read(bytes) {
            Read::Question(question) => Some(Ok(Asked { guest, lease, question, knowledge })),
            Read::Wrong(reply) => Some(Err(reply)),
            Read::Noise => None,
        }
    }

    fn look_up(&self, asked: &Asked, room: u16) -> Outcome {
        let message = &asked.question.message;
        let Some(query) = message.queries.first() else { return Outcome::Nothing };
        let (turn, of) = (usize::from(message.metadata.id), query.query_type);
        let (mut name, mut before) = (query.name.clone(), Vec::new());
        if matches!(of, RecordType::AXFR | RecordType::IXFR | RecordType::ANY) {
            return said(asked, &Said::only(ResponseCode::Refused), room);
        }
        for _ in 0..limits::ALIASES {
            let by = Asker { guest: asked.guest, lease: asked.lease };
            let answer = answer(&asked.knowledge, by, &name, of, turn);
            let now = match answer {
                Answer::Records(data) => Said::records(&name, data),
                Answer::NoData(origin) => Said::nothing(ResponseCode::NoError, origin),
                Answer::NoName(origin) => Said::nothing(ResponseCode::NXDomain, origin),
                Answer::NotYet => Said::failed(),
                Answer::Refused => Said::only(ResponseCode::Refused),
                Answer::Alias(other) => {
                    before.append(&mut Said::records(&name, vec![alias(other.clone())]).answers);
                    if of == RecordType::CNAME {
                        let is_own = true;
                        let only = Said { is_own, ..Said::only(ResponseCode::NoError) };
                        return said(asked, &only.after(before), room);
                    }
                    name = other;
                    continue;
                }
                Answer::Elsewhere => match self.kept(asked, &name, of) {
                    Some(kept) => kept,
                    None => return Outcome::Forward(name, before),
                },
            };
            return said(asked, &now.after(before), room);
        }
        said(asked, &Said::failed(), room)
    }

    fn kept(&self, asked: &Asked, name: &Name, of: RecordType) -> Option<Said> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut said = cache.find(&asked.lease, &(key(name), of), Instant::now())?;
        // It was asked for in other letters, perhaps.
        let is_it = |record: &&mut Record| record.name == *name;
        said.answers.iter_mut().filter(is_it).for_each(|record| record.name = name.clone());
        Some(said)
    }

    /// Asks elsewhere, as long as there is a place.
    async fn forward(&self, asked: &Asked, name: Name, before: Vec<Record>, _place: Place) -> Said {
        let query = asked.question.message.queries.first();
        let of = query.map_or(RecordType::A, |query| query.query_type);
        let said = forward::ask(&asked.knowledge.servers, &name, of).await;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.keep(asked.lease, (key(&name), of), &said, Instant::now());
        drop(cache);
        said.after(before)
    }
}

fn said(asked: &Asked, said: &Said, room: u16) -> Outcome {
    asked.question.reply(said, room).map_or(Outcome::Nothing, Outcome::Said)
}

fn key(name: &Name) -> String {
    name.to_lowercase().to_ascii()
}
