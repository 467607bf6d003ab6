//! What an API server asks of a kubelet, as a typed request: parsed here at
//! home, checked against the contract and performed at the provider. Nothing
//! else of the HTTP request crosses.

use axum::http::{HeaderMap, header};
use mercato_protocol::kubelet_stream::{Attach, Exec, Logs, Transport, Upgrade, What};
use mercato_protocol::limits::{COMMAND_WORDS, LABEL_BYTES};
use mercato_protocol::text::Blob;

use crate::format::query::Query;
use crate::guest::stream::SPDY_PROTOCOL;
use crate::limits;

/// A kind of request that is a stream, with the container it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stream {
    Logs(String),
    Exec(String),
    Attach(String),
    Run(String),
    PortForward,
}

impl Stream {
    /// The request with its parameters, or what is wrong with them.
    pub(super) fn read(self, query: &Query) -> Result<What, String> {
        match self {
            Self::Logs(container) => Ok(What::Logs(Logs {
                container,
                follow: query.flag("follow"),
                previous: query.flag("previous"),
                timestamps: query.flag("timestamps"),
                tail_lines: query.number("tailLines")?,
                limit_bytes: query.number("limitBytes")?,
                since_s: query.number("sinceSeconds")?,
                since_time: query.one("sinceTime").map(str::to_owned),
            })),
            Self::Attach(container) => attach(container, query).map(What::Attach),
            Self::Run(container) => run(container, query),
            Self::Exec(container) => exec(query.all("command"), attach(container, query)?),
            // SPDY names its ports in the streams, WebSocket in the query.
            Self::PortForward => {
                let ports = query.all("port").chain(query.all("ports"));
                let ports = ports.flat_map(|list| list.split(',')).map(|port| {
                    let number: Result<u16, _> = port.parse();
                    number.map(u32::from).map_err(|_| format!("{port} is not a port"))
                });
                let ports = ports.collect::<Result<Vec<_>, _>>()?;
                if ports.len() > limits::PORTS {
                    return Err("too many ports".into());
                }
                Ok(What::PortForward { ports })
            }
        }
    }
}

/// The command of `/run`; as a kubelet reads it, its words are parted by single spaces.
fn run(container: String, query: &Query) -> Result<What, String> {
    let attach = Attach { container, stdout: true, stderr: true, ..Attach::default() };
    exec(query.one("cmd").unwrap_or_default().split(' '), attach)
}

/// A command and where it runs, if it is one.
fn exec<'a>(words: impl Iterator<Item = &'a str>, attach: Attach) -> Result<What, String> {
    let command: Vec<Blob> = words.map(Blob::from).collect();
    let length = command.iter().map(|word| word.0.len()).sum::<usize>();
    if length == 0 {
        return Err("an exec needs a command".into());
    }
    if length > limits::COMMAND || command.len() > COMMAND_WORDS {
        return Err(format!(
            "the command has {} words of {length} bytes together, and {COMMAND_WORDS} words of {} bytes \
             are the most: give the script on standard input, or copy it into the pod",
            command.len(),
            limits::COMMAND
        ));
    }
    Ok(What::Exec(Exec { command, attach }))
}

fn attach(container: String, query: &Query) -> Result<Attach, String> {
    let attach = Attach {
        container,
        stdin: query.flag("input"),
        stdout: query.flag("output"),
        stderr: query.flag("error"),
        tty: query.flag("tty"),
    };
    if attach.stdin || attach.stdout || attach.stderr {
        Ok(attach)
    } else {
        Err("you must specify at least 1 of stdin, stdout, stderr".into())
    }
}

/// How the client wants to speak after the upgrade, and which versions of the
/// streaming protocol it offers; none if it asks for no upgrade that we know.
pub(super) fn upgrade(headers: &HeaderMap) -> Option<Upgrade> {
    let to = headers.get(header::UPGRADE)?.to_str().ok()?.to_ascii_lowercase();
    let (transport, offers) = match to.as_str() {
        "spdy/3.1" => (Transport::Spdy, SPDY_PROTOCOL),
        "websocket" => (Transport::WebSocket, header::SEC_WEBSOCKET_PROTOCOL.as_str()),
        _ => return None,
    };
    let values = headers.get_all(offers).iter().filter_map(|value| value.to_str().ok());
    let offered = values.flat_map(|value| value.split(',')).map(str::trim);
    let known = |name: &&str| (1..=LABEL_BYTES).contains(&name.len());
    let protocols = offered.filter(known).take(limits::SUB_PROTOCOLS);
    Some(Upgrade { transport, protocols: protocols.map(str::to_owned).collect() })
}

#[cfg(test)]
mod tests {
    use mercato_protocol::codec::Message;
    use mercato_protocol::id::ContractId;
    use mercato_protocol::kubelet_stream::{Ask, Request};
    use mercato_protocol::workload::Uid;

    use super::*;

    fn read(stream: Stream, query: &str) -> Result<What, String> {
        stream.read(&Query::parse(Some(query)))
    }

    #[test]
    fn an_exec_keeps_its_command() {
        let query = "command=sh&command=-c&command=echo+%24HOME%26&output=1&tty=0";
        let What::Exec(exec) = read(Stream::Exec("app".into()), query).unwrap() else { panic!() };
        assert_eq!(exec.command, ["sh", "-c", "echo $HOME&"].map(Blob::from));
        assert!(exec.attach.stdout && !exec.attach.stdin && !exec.attach.tty);
    }

    #[test]
    fn a_script_may_be_as_long_as_its_message() {
        let query = |n: usize| format!("command=sh&command=-c&command={}&output=1", "x".repeat(n));
        let exec = |n| read(Stream::Exec("app".into()), &query(n));
        let what = exec(127 << 10).unwrap();
        let uid = "7d1a33f4-7f1c-4a7e-9b6e-0d4c7f1c2a90".into();
        let ask = Ask::Open(Request {
            contract: ContractId([5; 16]),
            namespace: "n".repeat(253),
            pod: "p".repeat(253),
            uid: Uid(uid),
            what,
            upgrade: None,
        });
        assert_eq!(Ask::from_bytes(&ask.to_bytes().unwrap()), Ok(ask));
        let told = exec(limits::COMMAND).unwrap_err();
        assert!(told.contains("3 words") && told.contains("standard input"), "{told}");
    }

    #[test]
    fn a_command_has_a_thousand_words() {
        let exec = |n| {
            read(Stream::Exec("app".into()), &("output=1".to_owned() + &"&command=x".repeat(n)))
        };
        let What::Exec(command) = exec(1_000).unwrap() else { panic!() };
        assert_eq!(command.command.len(), 1_000);
        assert!(exec(COMMAND_WORDS + 1).unwrap_err().contains("1025 words"));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (stream, query) in [
            (Stream::Exec("app".into()), "command=sh"),
            (Stream::Exec("app".into()), "output=1"),
            (Stream::Attach("app".into()), "tty=1"),
            (Stream::Logs("app".into()), "tailLines=x"),
            (Stream::Run("app".into()), "cmd="),
            (Stream::PortForward, "port=70000"),
        ] {
            assert!(read(stream.clone(), query).is_err(), "{stream:?} {query}");
        }
    }

    #[test]
    fn ports_come_in_either_form() {
        let ports = read(Stream::PortForward, "port=80%2C443&port=22");
        assert_eq!(ports, Ok(What::PortForward { ports: vec![80, 443, 22] }));
    }

    #[test]
    fn both_transports_are_known() {
        let mut headers = HeaderMap::new();
        assert_eq!(upgrade(&headers), None);
        headers.insert("upgrade", "SPDY/3.1".parse().unwrap());
        headers.append(SPDY_PROTOCOL, "v5.channel.k8s.io".parse().unwrap());
        headers.append(SPDY_PROTOCOL, "v4.channel.k8s.io, v3.channel.k8s.io".parse().unwrap());
        let spdy = upgrade(&headers).unwrap();
        assert_eq!((spdy.transport, spdy.protocols.len()), (Transport::Spdy, 3));
        headers.insert("upgrade", "h2c".parse().unwrap());
        assert_eq!(upgrade(&headers), None);
    }
}
