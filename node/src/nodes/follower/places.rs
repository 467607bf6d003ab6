//! What this node is told of the daemon of its cluster: where it is, how it is known, and with
//! which token to speak to it. Others replace these files while the process runs.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mercato_protocol::limits::NODE_TOKEN_BYTES;
use rustls::ClientConfig;
use thiserror::Error;

use super::super::pin::{self, PinError};
use crate::limits;

/// Where all that stands on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The folder with the files `address` and `certificate`.
    pub(crate) control: PathBuf,
    /// The file with the token of this node's account.
    pub(crate) token: PathBuf,
}

/// What stood there just now.
pub(super) struct Control {
    /// At least one, in the order in which they are tried.
    pub(super) addresses: Vec<SocketAddr>,
    /// Takes the daemon's certificate alone.
    pub(super) tls: Arc<ClientConfig>,
    /// It fits into a message.
    pub(super) token: String,
}

/// Why the daemon cannot even be asked.
#[derive(Debug, Error)]
pub(super) enum PlacesError {
    /// There is no such file yet, or it is none that can be read.
    #[error("{path} cannot be read: {source}; {todo}", path = path.display())]
    File {
        /// Which of the files it is.
        path: PathBuf,
        source: io::Error,
        todo: &'static str,
    },
    /// Nobody wrote such a file for this.
    #[error("{path} has more than {most} bytes; {todo}", path = path.display())]
    Large { path: PathBuf, most: usize, todo: &'static str },
    /// Something else than an address stands there.
    #[error("{path} has {text:?}, which is no address: IP:PORT; {todo}", path = path.display())]
    Address { path: PathBuf, text: String, todo: &'static str },
    /// Nothing but spaces stands there.
    #[error("{path} is empty; {todo}", path = path.display())]
    Empty { path: PathBuf, todo: &'static str },
    /// It is not known who the daemon is.
    #[error("{path} {source}; {todo}", path = path.display())]
    Certificate { path: PathBuf, source: PinError, todo: &'static str },
}

const TODO_CONTROL: &str = "the daemon of this cluster writes it while its gateway is on: look at \
                            mercato status there, and at what is mounted here (--control)";
const TODO_TOKEN: &str = "the kubelet writes it, as the pod's spec says: look at what is mounted \
                          here (--token)";

impl Places {
    /// Reads all that stands there now.
    ///
    /// # Errors
    /// At the first that is missing, or is something else.
    pub(super) fn read(&self) -> Result<Control, PlacesError> {
        let (address, certificate) =
            (self.control.join("address"), self.control.join("certificate"));
        let addresses = addresses(&address, &read(&address, limits::FOLLOW_FILE, TODO_CONTROL)?)?;
        let pem = read(&certificate, limits::FOLLOW_FILE, TODO_CONTROL)?;
        let tls = pin::config(&pem).map_err(|source| {
            let (path, todo) = (certificate, TODO_CONTROL);
            PlacesError::Certificate { path, source, todo }
        })?;
        let token = read(&self.token, NODE_TOKEN_BYTES, TODO_TOKEN)?.trim().to_owned();
        Ok(Control { addresses, tls, token })
    }
}

fn addresses(path: &Path, text: &str) -> Result<Vec<SocketAddr>, PlacesError> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let parse = |line: &str| {
        line.parse().map_err(|_| {
            let text = line.chars().take(limits::FOLLOW_SHOWN).collect();
            PlacesError::Address { path: path.to_owned(), text, todo: TODO_CONTROL }
        })
    };
    lines.map(parse).collect()
}

/// A file that has something else than spaces.
fn read(path: &Path, most: usize, todo: &'static str) -> Result<String, PlacesError> {
    let path = path.to_owned();
    let mut text = String::new();
    let opened = File::open(&path);
    match opened.and_then(|file| file.take(most as u64 + 1).read_to_string(&mut text)) {
        Err(source) => Err(PlacesError::File { path, source, todo }),
        Ok(read) if read > most => Err(PlacesError::Large { path, most, todo }),
        Ok(_) if text.trim().is_empty() => Err(PlacesError::Empty { path, todo }),
        Ok(_) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::*;

    fn pem() -> String {
        let key = KeyPair::generate().unwrap();
        CertificateParams::default().self_signed(&key).unwrap().pem()
    }

    #[test]
    fn each_time_what_stands_there_is_read() {
        let dir = TempDir::new().unwrap();
        let places = Places { control: dir.path().to_owned(), token: dir.path().join("token") };
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let fails = |parts: &[&str]| {
            let error = places.read().err().unwrap().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        fails(&["address cannot be read: No such file", "mercato status"]);
        write("address", " \n");
        fails(&["address is empty", "mercato status"]);
        write("address", "192.0.2.1");
        fails(&["\"192.0.2.1\"", "no address: IP:PORT"]);
        write("address", "192.0.2.1:7478\n\n [2001:db8::1]:7478 \n");
        fails(&["certificate cannot be read"]);
        write("certificate", "nothing");
        fails(&["certificate has no certificate in PEM form"]);
        write("certificate", &pem());
        fails(&["token cannot be read", "--token"]);
        write("token", &"x".repeat(NODE_TOKEN_BYTES + 1));
        fails(&["token has more than 8192 bytes"]);
        write("token", "a.b.c\n");
        let control = places.read().unwrap();
        let expected = ["192.0.2.1:7478", "[2001:db8::1]:7478"].map(|it| it.parse().unwrap());
        assert_eq!((control.addresses, control.token), (expected.to_vec(), "a.b.c".to_owned()));
        write("address", "192.0.2.2:7478");
        assert_eq!(places.read().unwrap().addresses, ["192.0.2.2:7478".parse().unwrap()]);
    }
}
