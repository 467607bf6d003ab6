//! The sockets of one address, to which the kernel gives datagrams by a program: those of shards, and
//! that of handshakes.

use std::io;
use std::net::SocketAddr;

use crate::limits;
use crate::offloads::{OffloadState, Offloads};
use crate::socket::DatagramSocket;
use crate::steering;

/// The sockets of one address.
#[derive(Debug)]
pub struct Sockets {
    /// One for each of the shards.
    pub shards: Vec<DatagramSocket>,
    /// That of handshakes; none where a shard gets them.
    pub handshakes: Option<DatagramSocket>,
}

impl Sockets {
    /// Binds one socket for each shard to one address, in the network namespace of this thread, and
    /// one for handshakes: what is too much of them the kernel drops there, and packets keep their
    /// room. There is but one in all for one shard, whose port nobody else is to have, and where the
    /// kernel cannot be told which datagram is for which.
    ///
    /// # Errors
    /// When the address is taken or not there.
    pub fn bind(address: SocketAddr, shards: u8, offloads: &OffloadState) -> io::Result<Self> {
        let bytes = limits::RECEIVE_BUFFER_BYTES;
        let first = DatagramSocket::bind(address, shards > 1, bytes, offloads)?;
        if shards <= 1 {
            return Ok(Self { shards: vec![first], handshakes: None });
        }
        if let Err(error) = first.steer(steering::program(shards)) {
            tracing::info!(%error, "one shard: the kernel cannot tell whose a datagram is");
            return Ok(Self { shards: vec![first], handshakes: None });
        }
        // The port of the first, if any was asked for.
        let address = first.local_address()?;
        let mut all = vec![first];
        for _ in 1..shards {
            all.push(DatagramSocket::bind(address, true, bytes, offloads)?);
        }
        // The program counts sockets in the order in which they were bound.
        let one_by_one = OffloadState::new(Offloads::NONE);
        let bytes = limits::HANDSHAKE_BUFFER_BYTES;
        let handshakes = DatagramSocket::bind(address, true, bytes, &one_by_one)?;
        Ok(Self { shards: all, handshakes: Some(handshakes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offloads::Offload;

    #[test]
    fn the_kernel_gives_each_shard_its_datagrams() {
        const SHARDS: u8 = 3;
        let offloads = OffloadState::new(Offloads::ALL.without(Offload::UdpGro));
        let any = "127.0.0.1:0".parse().unwrap();
        let Sockets { mut shards, handshakes } = Sockets::bind(any, SHARDS, &offloads).unwrap();
        assert_eq!(shards.len(), usize::from(SHARDS));
        let here = Sockets::bind(any, 1, &offloads).unwrap().shards.remove(0);
        let to = shards[0].local_address().unwrap();
        for index in 0..16 {
            here.send(to, &[4, 0, 0, 0, index, 9, 9, 9], 8).unwrap();
        }
        for kind in 1..4 {
            here.send(to, &[kind, 0, 0, 0, 7, 7, 7, 7], 8).unwrap();
        }
        let mut room = vec![0; limits::RECEIVE_BYTES];
        for (number, shard) in shards.iter_mut().enumerate() {
            let mut all = Vec::new();
            while let Ok(received) = shard.receive(&mut room) {
                all.push(room[..received.bytes].to_vec());
            }
            let of_shard =
                |datagram: &&Vec<u8>| steering::shard_of(datagram, SHARDS) == Some(number as u8);
            assert_eq!(all.iter().filter(of_shard).count(), if number == 0 { 6 } else { 5 });
            assert_eq!(all.len(), all.iter().filter(of_shard).count());
        }
        let mut handshakes = handshakes.unwrap();
        for kind in 1..4 {
            let received = handshakes.receive(&mut room).unwrap();
            assert_eq!(room[..received.bytes], [kind, 0, 0, 0, 7, 7, 7, 7]);
        }
        assert!(handshakes.receive(&mut room).is_err(), "nothing else came there");
    }
}
