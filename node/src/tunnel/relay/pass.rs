//! Bytes of one connection, both ways, as they are.

use std::io;
use std::pin::pin;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use crate::limits;

/// Passes on what each of the two says, until both have said their last. One that has may listen for a
/// while yet.
///
/// # Errors
/// When either connection breaks off, or goes on for too long after one side has said its last.
pub(super) async fn both_ways(one: TcpStream, other: TcpStream) -> io::Result<()> {
    let ((from_one, to_one), (from_other, to_other)) = (one.into_split(), other.into_split());
    let mut there = pin!(pass(from_one, to_other));
    let mut back = pin!(pass(from_other, to_one));
    let rest = tokio::select! {
        done = &mut there => { done?; timeout(limits::API_HALF_CLOSED, back).await }
        done = &mut back => { done?; timeout(limits::API_HALF_CLOSED, there).await }
    };
    rest.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
    let mut buffer = vec![0; limits::API_BUFFER];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
    }
}
