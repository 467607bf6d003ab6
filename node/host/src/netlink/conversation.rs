//! A socket to one part of the kernel: requests, lists and batches, one after the other.

use std::io;

use netlink_sys::{Socket, SocketAddr, protocols};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{SndBuf, SndBufForce};
use socket2::SockRef;

use super::message::{Attributes, HEADER_BYTES, Message, REQUEST, number};
use crate::error::KernelError;
use crate::limits;

/// The first message of a batch, and the last (linux/netfilter/nfnetlink.h).
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const DUMP: u16 = libc::NLM_F_DUMP as u16;
/// The kernel's words for an error (`NLMSGERR_ATTR_MSG`).
const WORDS: u16 = 1;
/// Our request is repeated behind an error only as far as its header (`NLM_F_CAPPED`), and then
/// attributes follow (`NLM_F_ACK_TLVS`).
const CAPPED: u16 = 0x100;
const HAS_ATTRIBUTES: u16 = 0x200;

/// A socket, with the number of the request that it waits for.
pub(crate) struct Conversation {
    socket: Socket,
    sequence: u32,
}

/// One thing to be done, and the error by which the kernel says that it is so already.
pub(crate) struct Change {
    pub(super) message: Message,
    pub(super) done: Option<i32>,
}

/// One message of an answer.
struct Answer {
    kind: u16,
    flags: u16,
    sequence: u32,
    payload: Vec<u8>,
}

impl Conversation {
    /// With the part that knows devices, addresses, routes and rules.
    pub(crate) fn about_routing() -> Result<Self, KernelError> {
        Self::open(protocols::NETLINK_ROUTE)
    }

    /// With the part that knows packet rules.
    pub(crate) fn about_packets() -> Result<Self, KernelError> {
        Self::open(protocols::NETLINK_NETFILTER)
    }

    fn open(protocol: isize) -> Result<Self, KernelError> {
        let mut socket = Socket::new(protocol).map_err(failed)?;
        socket.bind_auto().map_err(failed)?;
        let options = SockRef::from(&socket);
        options.set_read_timeout(Some(limits::ANSWER)).map_err(failed)?;
        // Whoever may not have more than others has fewer of all that there may be.
        setsockopt(&socket, SndBufForce, &limits::BATCH_BYTES)
            .or_else(|_| setsockopt(&socket, SndBuf, &limits::BATCH_BYTES))
            .map_err(|error| failed(error.into()))?;
        // Kernels before 4.20 know less: their errors have no words, their lists are longer, and
        // both are read as well.
        for wish in [
            socket.set_ext_ack(true),
            socket.set_cap_ack(true),
            socket.set_netlink_get_strict_chk(true),
        ] {
            wish.or_else(|error| match error.raw_os_error() {
                Some(libc::ENOPROTOOPT) => Ok(()),
                Some(_) | None => Err(failed(error)),
            })?;
        }
        Ok(Self { socket, sequence: 0 })
    }

    /// Asks for a list. Messages come without their headers, and none of them is from before a
    /// change that happened meanwhile.
    pub(super) fn list(
        &mut self,
        request: impl Fn() -> Message,
    ) -> Result<Vec<Vec<u8>>, KernelError> {
        self.list_of(request, |_| true)
    }

    /// Asks for a list that may be long, and keeps of it what is wanted.
    pub(super) fn list_of(
        &mut self,
        request: impl Fn() -> Message,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<Vec<u8>>, KernelError> {
        for _ in 0..limits::READS {
            self.send(vec![request()])?;
            if let Some(list) = self.read_list(&is_wanted)? {
                return Ok(list);
            }
        }
        Err(KernelError::Changing)
    }

    /// `None` when it changed while it was read.
    fn read_list(
        &mut self,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<Vec<u8>>>, KernelError> {
        let mut list = Vec::new();
        let mut is_whole = true;
        loop {
            for answer in self.receive()? {
                is_whole &= answer.flags & libc::NLM_F_DUMP_INTR as u16 == 0;
                match i32::from(answer.kind) {
                    libc::NLMSG_DONE => {
                        refused(&answer)?;
                        return Ok(is_whole.then_some(list));
                    }
                    libc::NLMSG_ERROR => {
                        refused(&answer)?;
                        return Ok(is_whole.then_some(list));
                    }
                    libc::NLMSG_NOOP => {}
                    _ if is_wanted(&answer.payload) => list.push(answer.payload),
                    _ => {}
                }
            }
        }
    }

    /// Asks for one thing that is there.
    pub(super) fn one(&mut self, request: Message) -> Result<Vec<u8>, KernelError> {
        self.send(vec![request])?;
        let answer = self.receive()?.into_iter().next().ok_or(KernelError::Garbled)?;
        match i32::from(answer.kind) {
            libc::NLMSG_ERROR => refused(&answer).and(Err(KernelError::Garbled)),
            _ => Ok(answer.payload),
        }
    }

    /// Has one thing done, and waits for it. Somebody may have been faster, or it is done again:
    /// then it is as it should be.
    pub(crate) fn perform(&mut self, change: Change) -> Result<(), KernelError> {
        self.send(vec![change.message.acknowledged()])?;
        self.wait_for(self.sequence).or_else(|error| match change.done {
            Some(number) if error.is(number) => Ok(()),
            Some(_) | None => Err(error),
        })
    }

    /// Has all of it done at one moment, or nothing.
    pub(super) fn batch(&mut self, mut messages: Vec<Message>) -> Result<(), KernelError> {
        let Some(last) = messages.pop() else { return Ok(()) };
        let subsystem = [&[0, 0][..], &(libc::NFNL_SUBSYS_NFTABLES as u16).to_be_bytes()].concat();
        let frame = |kind| Message::new(kind, REQUEST, &subsystem);
        let mut all = vec![frame(BATCH_BEGIN)];
        all.append(&mut messages);
        all.extend([last.acknowledged(), frame(BATCH_END)]);
        self.send(all)?;
        // That of the end is never said. An error comes before it, whichever message it is of.
        self.wait_for(self.sequence - 1)
    }

    fn send(&mut self, messages: Vec<Message>) -> Result<(), KernelError> {
        let mut bytes = Vec::new();
        for message in messages {
            self.sequence += 1;
            bytes.extend(message.numbered(self.sequence));
        }
        let kernel = SocketAddr::new(0, 0);
        let sent = self.socket.send_to(&bytes, &kernel, 0).map_err(failed)?;
        if sent == bytes.len() { Ok(()) } else { Err(KernelError::Garbled) }
    }

    fn wait_for(&mut self, sequence: u32) -> Result<(), KernelError> {
        loop {
            for answer in self.receive()? {
                if i32::from(answer.kind) == libc::NLMSG_ERROR {
                    refused(&answer)?;
                    if answer.sequence == sequence {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn receive(&mut self) -> Result<Vec<Answer>, KernelError> {
        let (datagram, _) = loop {
            match self.socket.recv_from_full() {
                // A signal came meanwhile; the answer is still there.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                received => break received.map_err(failed)?,
            }
        };
        let mut bytes = &datagram[..];
        let mut answers = Vec::new();
        while !bytes.is_empty() {
            let header: [u8; HEADER_BYTES] = number(bytes).ok_or(KernelError::Garbled)?;
            let length = number(&header).map_or(0, u32::from_ne_bytes) as usize;
            let payload = bytes.get(HEADER_BYTES..length).ok_or(KernelError::Garbled)?.to_vec();
            answers.push(Answer {
                kind: number(&header[4..]).map_or(0, u16::from_ne_bytes),
                flags: number(&header[6..]).map_or(0, u16::from_ne_bytes),
                sequence: number(&header[8..]).map_or(0, u32::from_ne_bytes),
                payload,
            });
            bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(answers)
    }
}

fn failed(source: io::Error) -> KernelError {
    KernelError::Socket { source }
}

/// What a list is asked for with.
pub(super) fn list_flags() -> u16 {
    REQUEST | DUMP
}

/// The error that an answer says, if it says one: a negative number, then our own request, and
/// then the kernel's words.
fn refused(answer: &Answer) -> Result<(), KernelError> {
    let code = number(&answer.payload).map_or(0, i32::from_ne_bytes);
    if code >= 0 {
        return Ok(());
    }
    let is_list = i32::from(answer.kind) == libc::NLMSG_DONE;
    let request = answer.payload.get(4..).unwrap_or_default();
    let length = number(request).map_or(0, u32::from_ne_bytes) as usize;
    let skipped = match (is_list, answer.flags & CAPPED != 0) {
        (true, _) => 0,
        (false, true) => HEADER_BYTES,
        (false, false) => length,
    };
    let words = (answer.flags & HAS_ATTRIBUTES != 0)
        .then(|| Attributes::after(skipped, request).ok()?.text(WORDS))
        .flatten();
    Err(KernelError::Refused { source: io::Error::from_raw_os_error(-code), words })
}
