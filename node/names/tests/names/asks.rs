//! A guest that asks, by hand: from an address of its own.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RecordType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::timeout;

/// Far more than an answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn question(name: &str, of: RecordType, room: Option<u16>) -> Message {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), of));
    if let Some(room) = room {
        let mut edns = Edns::new();
        edns.set_max_payload(room);
        message.set_edns(edns);
    }
    message
}

/// A socket of this guest.
pub(crate) async fn guest(address: &str) -> UdpSocket {
    UdpSocket::bind((address, 0)).await.unwrap()
}

/// What these bytes are answered.
pub(crate) async fn bytes(socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> Message {
    socket.send_to(bytes, to).await.unwrap();
    next(socket, to).await
}

/// What this socket hears next from there.
pub(crate) async fn next(socket: &UdpSocket, by: SocketAddr) -> Message {
    let mut buffer = [0; 4_096];
    let received = timeout(PATIENCE, socket.recv_from(&mut buffer)).await;
    let (length, from) = received.expect("no answer").unwrap();
    assert_eq!(from, by);
    Message::from_vec(&buffer[..length]).unwrap()
}

/// What is answered to a question, by UDP, without EDNS.
pub(crate) async fn ask(socket: &UdpSocket, to: SocketAddr, name: &str, of: RecordType) -> Message {
    bytes(socket, to, &question(name, of, None).to_vec().unwrap()).await
}

/// A connection of a guest.
pub(crate) struct Connection(TcpStream);

impl Connection {
    pub(crate) async fn open(guest: &str, to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(guest.parse().unwrap(), 0)).unwrap();
        Self(timeout(PATIENCE, socket.connect(to)).await.unwrap().unwrap())
    }

    /// Of a server that has closed it nothing comes: that is seen by who waits for an answer.
    pub(crate) async fn ask(&mut self, question: &Message) {
        let bytes = question.to_vec().unwrap();
        let length = u16::try_from(bytes.len()).unwrap();
        let _closed = self.0.write_all(&[&length.to_be_bytes()[..], &bytes].concat()).await;
    }

    /// Says that it asks no more.
    pub(crate) async fn end(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    /// The next answer; none, where the server has ended.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        let length = timeout(PATIENCE, self.0.read_u16()).await.expect("no answer").ok()?;
        let mut answer = vec![0; length.into()];
        self.0.read_exact(&mut answer).await.unwrap();
        Some(Message::from_vec(&answer).unwrap())
    }
}

/// What is answered to questions on one connection of this guest, one after the other.
pub(crate) async fn by_tcp(address: &str, to: SocketAddr, all: &[Message]) -> Vec<Message> {
    let (mut connection, mut answers) = (Connection::open(address, to).await, Vec::new());
    for message in all {
        connection.ask(message).await;
        let Some(answer) = connection.next().await else { return answers };
        answers.push(answer);
    }
    answers
}
