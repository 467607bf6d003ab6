//! A name server elsewhere, which says 192.0.2.7 to what it answers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hickory_proto::op::{Message, MessageType, OpCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// What it answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    All,
    Nothing,
    /// Names with `late` in them once it was asked for so many of them: before that none.
    Together(usize),
}

pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Asked>>,
    task: JoinHandle<()>,
}

/// How often it was asked, and for which names.
#[derive(Default)]
struct Asked {
    times: usize,
    names: BTreeSet<String>,
    /// Of these, the ones that are late.
    late: usize,
}

impl Upstream {
    pub(crate) async fn start(says: Says) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (address, asked) = (socket.local_addr().unwrap(), Arc::<Mutex<Asked>>::default());
        let task = tokio::spawn(answer(socket, asked.clone(), says));
        Self { address, asked, task }
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.lock().unwrap().times
    }

    /// For how many names with that in them it was asked.
    pub(crate) fn names(&self, with: &str) -> usize {
        self.asked.lock().unwrap().names.iter().filter(|name| name.contains(with)).count()
    }
}

async fn answer(socket: UdpSocket, asked: Arc<Mutex<Asked>>, says: Says) {
    let (mut buffer, mut waiting) = ([0; 4_096], Vec::new());
    while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
        let question = Message::from_vec(&buffer[..length]).unwrap();
        let name = question.queries[0].name.to_ascii();
        let is_late = name.contains("late");
        let late = {
            let mut asked = asked.lock().unwrap();
            asked.times += 1;
            let is_new = asked.names.insert(name);
            asked.late += usize::from(is_late && is_new);
            asked.late
        };
        let now = match says {
            Says::All => true,
            Says::Nothing => false,
            Says::Together(count) => {
                is_late && {
                    waiting.push((question.clone(), from));
                    late >= count
                }
            }
        };
        if now {
            if says == Says::All {
                waiting.push((question, from));
            }
            for (question, from) in waiting.drain(..) {
                say(&socket, question, from).await;
            }
        }
    }
}

async fn say(socket: &UdpSocket, question: Message, to: SocketAddr) {
    let mut answer = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
    let name = question.queries[0].name.clone();
    answer.queries = question.queries;
    let data = RData::A(A::new(192, 0, 2, 7));
    answer.answers = vec![Record::from_rdata(name, 60, data)];
    // What is forged comes first, and is not taken.
    let mut forged = answer.clone();
    forged.metadata.id = !forged.metadata.id;
    forged.answers.clear();
    for said in [forged, answer] {
        // Whoever has an answer by then hears no other.
        let _lost = socket.send_to(&said.to_vec().unwrap(), to).await;
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}
