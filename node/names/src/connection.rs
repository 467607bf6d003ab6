//! One connection of a guest: it asks as much as it likes at once, and each answer goes back as soon as
//! it is there, whichever was asked first (RFC 7766, section 6.2.1.1).

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::limits;
use crate::reply::Said;
use crate::resolver::{Outcome, Resolver};
use crate::stream::{self, Messages};

/// What happens on a connection.
enum Next {
    Asked(Vec<u8>),
    /// It may ask now what it has asked.
    Turn,
    /// An answer is there; or none will be.
    Answered(Option<Vec<u8>>),
    /// The guest asks no more on it.
    Ended,
}

/// Answers what is asked on a connection until that ends.
///
/// # Errors
/// When it breaks off, or nothing is asked, or read, for too long.
pub(crate) async fn converse(
    mut connection: TcpStream,
    guest: IpAddr,
    resolver: &Arc<Resolver>,
) -> io::Result<()> {
    let (mut from, mut to) = connection.split();
    let mut messages = Messages::new(limits::QUESTION_BYTES);
    let (mut waiting, mut has_ended) = (None::<Vec<u8>>, false);
    let mut under_way = JoinSet::new();
    while !(has_ended && waiting.is_none() && under_way.is_empty()) {
        let next = tokio::select! {
            asked = timeout(limits::CONNECTION_IDLE, messages.next(&mut from)),
                if waiting.is_none() && !has_ended => asked.map_err(late)??.map_or(Next::Ended, Next::Asked),
            () = turn(resolver, guest), if waiting.is_some() => Next::Turn,
            Some(done) = under_way.join_next() => Next::Answered(done.ok().flatten()),
        };
        let reply = match next {
            Next::Asked(asked) => {
                waiting = Some(asked);
                continue;
            }
            Next::Ended => {
                has_ended = true;
                continue;
            }
            Next::Answered(reply) => reply,
            Next::Turn => {
                let Some(asked) = waiting.take() else { continue };
                // Of what is no question nothing comes, nor of one from nobody's guest any more.
                let Some(asked) = resolver.read(guest, &asked) else { return Ok(()) };
                match asked {
                    Err(wrong) => Some(wrong),
                    Ok(asked) => match resolver.look_up(&asked, u16::MAX) {
                        Outcome::Said(reply) => Some(reply),
                        Outcome::Nothing => return Ok(()),
                        Outcome::Forward(name, before) => match resolver.place(&asked) {
                            None => asked.question.reply(Said::failed(), u16::MAX),
                            Some(place) => {
                                let resolver = resolver.clone();
                                under_way.spawn(async move {
                                    let said = resolver.forward(&asked, name, before, place).await;
                                    let said = said.unwrap_or_else(Said::failed);
                                    asked.question.reply(said, u16::MAX)
                                });
                                continue;
                            }
                        },
                    },
                }
            }
        };
        if let Some(reply) = reply {
            let written = stream::write(&mut to, &reply);
            timeout(limits::CONNECTION_WRITE, written).await.map_err(late)??;
        }
    }
    Ok(())
}

/// Waits until a guest may ask: whoever asks too fast on a connection is not read meanwhile.
async fn turn(resolver: &Resolver, guest: IpAddr) {
    const AGAIN: Duration = limits::TURN_AGAIN;
    while !resolver.may_ask(guest) {
        sleep(AGAIN).await;
    }
}

fn late(_: tokio::time::error::Elapsed) -> io::Error {
    io::ErrorKind::TimedOut.into()
}
