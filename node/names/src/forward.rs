//! Asks name servers elsewhere what nobody here knows: each question from a port of its own, with a
//! number drawn by lot, and no answer but of the server that was asked is taken.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use tokio::net::{TcpStream, UdpSocket};

use crate::limits;
use crate::reply::Said;
use crate::stream::{self, Messages};

/// What a server answers.
///
/// # Errors
/// When it cannot be asked, or says that it fails or refuses.
pub(crate) async fn ask(server: SocketAddr, name: &Name, of: RecordType) -> io::Result<Said> {
    let mut question = Message::new(rand::random(), MessageType::Query, OpCode::Query);
    question.metadata.recursion_desired = true;
    question.add_query(Query::query(name.clone(), of));
    let mut edns = Edns::new();
    edns.set_max_payload(limits::ANSWER_BYTES);
    question.set_edns(edns);
    let bytes = question.to_vec().map_err(io::Error::other)?;
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(&bytes).await?;
    let mut buffer = [0; limits::ANSWER_BYTES as usize];
    let answer = loop {
        let length = socket.recv(&mut buffer).await?;
        // Whoever has guessed the port has to guess the number as well.
        if let Some(answer) = read(&buffer[..length], &question) {
            break answer;
        }
    };
    let answer = match answer.metadata.truncation {
        false => answer,
        true => by_stream(server, &bytes, &question).await?,
    };
    said(answer)
}

async fn by_stream(server: SocketAddr, bytes: &[u8], question: &Message) -> io::Result<Message> {
    let mut connection = TcpStream::connect(server).await?;
    stream::write(&mut connection, bytes).await?;
    let answer = Messages::new(limits::FORWARD_BYTES).next(&mut connection).await?;
    let answer = answer.and_then(|answer| read(&answer, question));
    answer.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The answer to this question; none, where it is something else.
fn read(bytes: &[u8], question: &Message) -> Option<Message> {
    let answer = Message::from_vec(bytes).ok()?;
    let is_answer = answer.metadata.message_type == MessageType::Response
        && answer.metadata.id == question.metadata.id
        && answer.queries == question.queries;
    is_answer.then_some(answer)
}

/// What is passed on of an answer; a server that fails or refuses is no answer.
fn said(answer: Message) -> io::Result<Said> {
    let code = answer.metadata.response_code;
    if !matches!(code, ResponseCode::NoError | ResponseCode::NXDomain) {
        return Err(io::Error::other(format!("it says {code}")));
    }
    let mut authorities = answer.authorities;
    authorities.retain(|record| record.record_type() == RecordType::SOA);
    Ok(Said { code, answers: answer.answers, authorities, is_own: false })
}
