//! Which shard opens a sealed packet: the low bits of the receiver's index say which shard of the
//! peer has sealed it, and each of those has one shard here. The kernel looks at them by a
//! program of the socket; what it has put together from datagrams of several shards, and whatever
//! else goes astray, is sorted by hand. Handshakes have a socket of their own, after those of the
//! shards.

use libc::sock_filter;
use mercato_session::limits::SHARDS;

/// The first byte of a sealed packet, and the place of its index's lowest one (docs/wire.md).
const DATA: u8 = 4;
const INDEX_AT: usize = 4;
/// Of the program.
pub(crate) const STEPS: usize = 7;
const SHARD_BITS: u8 = SHARDS as u8 - 1;

/// The shard that opens this datagram; none if it is no sealed packet.
pub(crate) fn shard_of(datagram: &[u8], shards: u8) -> Option<u8> {
    let index = datagram.get(INDEX_AT).filter(|_| datagram[0] == DATA)?;
    Some((index & SHARD_BITS) % shards)
}

/// The same, for the kernel, which sees a datagram from its first byte on: the number of a socket.
pub(crate) fn program(shards: u8) -> [sock_filter; STEPS] {
    let load = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    [
        step(load, 0, 0, 0),
        step((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, 0, 4, DATA.into()),
        step(load, 0, 0, INDEX_AT as u32),
        step((libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16, 0, 0, SHARD_BITS.into()),
        step((libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K) as u16, 0, 0, shards.into()),
        step((libc::BPF_RET | libc::BPF_A) as u16, 0, 0, 0),
        step((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, shards.into()),
    ]
}

fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_packet_goes_by_its_index_and_the_rest_nowhere() {
        let sealed = [4, 0, 0, 0, 0x57, 9, 9, 9, 0, 0, 0, 0];
        assert_eq!(shard_of(&sealed, 1), Some(0));
        assert_eq!(shard_of(&sealed, 4), Some(3));
        assert_eq!(shard_of(&sealed, 16), Some(7));
        assert_eq!(shard_of(&[1, 0, 0, 0, 7], 16), None);
        assert_eq!(shard_of(&sealed[..4], 16), None);
        assert_eq!(shard_of(&[], 16), None);
    }
}
