//! The first container of a guest, as the process that it is.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::kit::{mercato, signal};

/// A gate that asks here, with its first question.
fn asking() -> (TcpListener, Child, TcpStream) {
    let home = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut command = mercato(home.path());
    command.args(["gate", "--port", &port]).stdout(Stdio::null()).stderr(Stdio::null());
    let gate = command.env("MERCATO_POD", "u-1").env("MERCATO_NODE", "127.0.0.1").spawn().unwrap();
    let (stream, _) = listener.accept().unwrap();
    let mut asked = String::new();
    BufReader::new(&stream).read_line(&mut asked).unwrap();
    assert_eq!(asked, "u-1\n");
    (listener, gate, stream)
}

#[test]
fn a_gate_ends_when_it_is_let_through() {
    let (listener, mut gate, stream) = asking();
    drop(stream);
    let (mut stream, _) = listener.accept().unwrap();
    assert!(gate.try_wait().unwrap().is_none(), "whom nobody lets through waits");
    stream.write_all(b"open\n").unwrap();
    assert!(gate.wait().unwrap().success());
}

#[test]
fn a_gate_that_is_told_to_end_lets_nothing_begin() {
    let (_listener, mut gate, _stream) = asking();
    signal(&gate, Signal::SIGTERM);
    assert_eq!(gate.wait().unwrap().code(), Some(143));
}
