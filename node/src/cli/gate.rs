//! `mercato gate`: the first container of a guest whose contract requires isolation. It ends once the
//! node has closed in the network of its pod, and all else of the guest waits for that.
//!
//! It ends well or, where its pod is ended, by the signal: with another end a pod that is not to be
//! restarted would fail. Each guest begins with it, so it reads no file and makes no runtime.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::num::NonZeroU16;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use mercato_protocol::gate::{Answer, GuestUid, NODE_VARIABLE, POD_VARIABLE, PORT};
use mercato_protocol::limits::GATE_ANSWER_BYTES;
use nix::sys::signal::{SigSet, Signal};

use crate::limits;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato gate
  mercato gate --port 7479

The daemon puts it before the containers of guests. It takes the uid of its pod
from MERCATO_POD and the address of its node from MERCATO_NODE, and ends when
what runs on the node (mercato node) has isolated that pod.")]
pub(crate) struct Gate {
    /// Where the node answers, by TCP
    #[arg(long, value_name = "N", default_value_t = PORT)]
    port: NonZeroU16,
}

impl Gate {
    /// Comes back when the guest may begin, with nothing to show.
    pub(crate) fn pass(&self) -> String {
        end_when_told();
        let told = |name| std::env::var(name).unwrap_or_default();
        let question = Question::of(&told(POD_VARIABLE), &told(NODE_VARIABLE), self.port);
        wait(&question, limits::GATE_SAYS, |line| {
            // Nobody may be reading.
            let _ = writeln!(io::stderr(), "{line}");
        });
        String::new()
    }
}

/// The first process of a container is deaf to a signal that it does not wait for; its pod would
/// take its whole grace to end.
fn end_when_told() {
    let ends: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    if ends.thread_block().is_err() {
        return;
    }
    let waiting = move || {
        if let Ok(signal) = ends.wait() {
            // As a shell has it: never as if the guest might begin.
            std::process::exit(128 + signal as i32);
        }
    };
    // Without it the pod ends all the same, but later.
    let _ = thread::Builder::new().spawn(waiting);
}

/// Asks until the answer is that the guest may begin; says now and then why it does not.
fn wait(question: &Result<Question, String>, every: Duration, mut say: impl FnMut(&str)) {
    let (mut times, mut said_at) = (0_u32, Instant::now());
    loop {
        let why = match question.as_ref().map(Question::ask) {
            Ok(Ok(Answer::Open)) => return,
            Ok(Ok(Answer::Wait)) => "it has not isolated this pod yet".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(wrong) => wrong.clone(),
        };
        if said_at.elapsed() >= every {
            said_at = Instant::now();
            let node = match question {
                Ok(question) => format!("the node at {}", question.node),
                Err(_) => "a node".to_owned(),
            };
            say(&format!("this pod waits until {node} says that it is isolated: {why}"));
        }
        times = times.saturating_add(1);
        let eager = times <= limits::GATE_EAGER;
        thread::sleep(if eager { limits::GATE_SOON } else { limits::GATE_AGAIN });
    }
}

/// What is asked, and of whom.
#[derive(Debug)]
struct Question {
    pod: GuestUid,
    node: SocketAddr,
}

impl Question {
    /// Of what the environment says; an error for a person, where that cannot be understood.
    fn of(pod: &str, node: &str, port: NonZeroU16) -> Result<Self, String> {
        let wrong = |name: &str, what: &str| format!("{name} in the environment is not {what}");
        let pod = pod.parse().map_err(|_| wrong(POD_VARIABLE, "the uid of this pod"))?;
        let node = node.parse::<IpAddr>().map_err(|_| wrong(NODE_VARIABLE, "an IP address"))?;
        Ok(Self { pod, node: SocketAddr::new(node, port.get()) })
    }

    fn ask(&self) -> io::Result<Answer> {
        let mut stream = TcpStream::connect_timeout(&self.node, limits::GATE_CONNECT)?;
        stream.set_write_timeout(Some(limits::GATE_ANSWER))?;
        stream.write_all(self.pod.question().as_bytes())?;
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
        let until = Instant::now() + limits::GATE_ANSWER;
        let (mut heard, mut length) = ([0; GATE_ANSWER_BYTES], 0);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late());
            }
            stream.set_read_timeout(Some(left))?;
            let is_late = |error: &io::Error| {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
            };
            let read = stream.read(&mut heard[length..]);
            let more = read.map_err(|error| if is_late(&error) { late() } else { error })?;
            if more == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up"));
            }
            length += more;
            let answer = Answer::read(&heard[..length]);
            if let Some(answer) =
                answer.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?
            {
                return Ok(answer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const POD: &str = "7d1a33f4-7f1c-4a7e-9b6e-0d4c7f1c2a90";

    /// A node that gives these answers, one for each question, and then the questions.
    fn node(
        answers: &'static [&str],
    ) -> (Result<Question, String>, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
        let serving = thread::spawn(move || {
            let serve = |answer: &&str| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = vec![0; POD.len() + 1];
                stream.read_exact(&mut asked).unwrap();
                // A letter at a time; who has heard enough has hung up.
                let _ = answer.bytes().try_for_each(|byte| stream.write_all(&[byte]));
                String::from_utf8(asked).unwrap()
            };
            answers.iter().map(serve).collect()
        });
        (Question::of(POD, "127.0.0.1", port), serving)
    }

    #[test]
    fn it_asks_until_it_is_let_through() {
        let (question, node) = node(&["", "wait\n", "no\n", "open", "openopen\n", "open\n"]);
        let mut said = Vec::new();
        wait(&question, Duration::ZERO, |line| {
            assert!(said.len() < 6, "the node has gone, and is asked for ever: {said:?}");
            said.push(line.to_owned());
        });
        let asked = node.join().unwrap();
        assert_eq!(asked, vec![format!("{POD}\n"); 6]);
        assert_eq!(said.len(), 5);
        for (line, why) in said.iter().zip(["hung up", "not isolated", "expected", "hung up"]) {
            assert!(line.contains("127.0.0.1") && line.contains(why), "{line}");
        }
    }

    #[test]
    fn nobody_there_is_no_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
        drop(listener);
        assert!(Question::of(POD, "127.0.0.1", port).unwrap().ask().is_err());
    }

    #[test]
    fn what_cannot_be_asked_is_said() {
        let of = |pod: &str, node: &str| Question::of(pod, node, PORT).map(drop).unwrap_err();
        for pod in ["", "a b", "A", "../x", "a\nopen"] {
            assert!(of(pod, "127.0.0.1").contains("MERCATO_POD"), "{pod:?}");
        }
        for node in ["", "localhost", "127.0.0.1:80"] {
            assert!(of(POD, node).contains("MERCATO_NODE"), "{node:?}");
        }
        assert_eq!(Question::of(POD, "::1", PORT).unwrap().node.to_string(), "[::1]:7479");
    }
}
