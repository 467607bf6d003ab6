//! What stands in a sealed packet besides packets of pods: probes of the path, their echoes,
//! challenges of an address, their answers, pings that come back, and halves of packets that are
//! larger than a datagram. The first byte tells them apart: an IP packet begins with its version,
//! perhaps [marked](crate::take_partial_mark), and nothing at all is a keepalive.

const PROBE: u8 = 1;
const ECHO: u8 = 2;
const FIRST_HALF: u8 = 3;
const SECOND_HALF: u8 = 4;
const CHALLENGE: u8 = 5;
const ANSWER: u8 = 6;
const PING: u8 = 7;
const PING_BACK: u8 = 8;

/// Of a probe without its padding, and of an echo.
pub(crate) const PROBE_BYTES: usize = 8;
/// Of a challenge, of a ping that says nothing else, and of what answers them: a kind, three zero
/// bytes, and a number.
const NUMBERED_BYTES: usize = 4 + 8;
/// Of a ping that says what was heard: the same, and another number.
const PING_BYTES: usize = NUMBERED_BYTES + 8;
/// In front of each half of a packet.
pub(crate) const HALF_HEADER_BYTES: usize = 1;

/// A probe of the path: padded so that the outer packet has exactly this size, and not to be
/// fragmented. Its echo says the same, without the padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// By which its echo is known.
    pub id: u32,
    /// Of the outer packet.
    pub outer_bytes: u16,
}

/// A ping: it is answered, and says what has come from whoever gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// By which its answer is known: above zero.
    pub number: u64,
    /// The number of the receiver's ping that came last, since there is a session with it; zero: none
    /// did. None: its sender does not say, as releases before this word.
    pub heard: Option<u64>,
}

/// What one shard is to seal, that is no packet of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// A probe of the path.
    Probe(Probe),
    /// The answer to a probe of the peer's.
    Echo(Probe),
    /// Nothing: that there is somebody.
    Keepalive,
    /// A number that nobody can guess, for who receives where this is sent.
    Challenge(u64),
    /// The same number: it was received.
    Answer(u64),
    /// A number, to see whether and when it comes back, and what was heard of the receiver.
    Ping(Ping),
    /// The same number: it has come.
    PingBack(u64),
}

/// What was in a sealed packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    /// Nothing, or nothing of this version.
    Nothing,
    /// A packet of a pod.
    Packet(&'a mut [u8]),
    /// Something for the gateway itself.
    Control(Control),
    /// One half of a packet.
    Half(HalfKind, &'a [u8]),
}

/// Which half of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HalfKind {
    /// The beginning; the packet with the next counter has the rest.
    First,
    /// The rest.
    Second,
}

impl<'a> Content<'a> {
    /// Reads what was sealed.
    pub(crate) fn read(opened: &'a mut [u8]) -> Self {
        let of = |control: Option<Control>| control.map_or(Self::Nothing, Self::Control);
        match opened.first() {
            Some(&FIRST_HALF) => Self::Half(HalfKind::First, &opened[HALF_HEADER_BYTES..]),
            Some(&SECOND_HALF) => Self::Half(HalfKind::Second, &opened[HALF_HEADER_BYTES..]),
            Some(&PROBE) => of(Probe::read(opened).map(Control::Probe)),
            Some(&ECHO) => of(Probe::read(opened).map(Control::Echo)),
            Some(&CHALLENGE) => of(number(opened).map(Control::Challenge)),
            Some(&ANSWER) => of(number(opened).map(Control::Answer)),
            Some(&PING) => of(Ping::read(opened).map(Control::Ping)),
            Some(&PING_BACK) => of(number(opened).map(Control::PingBack)),
            Some(_) => Self::Packet(opened),
            None => Self::Nothing,
        }
    }
}

impl HalfKind {
    /// The byte in front of it.
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            Self::First => FIRST_HALF,
            Self::Second => SECOND_HALF,
        }
    }
}

impl Probe {
    fn read(bytes: &[u8]) -> Option<Self> {
        let [_, 0, size_low, size_high, id @ ..] = bytes.first_chunk::<PROBE_BYTES>()? else {
            return None;
        };
        let outer_bytes = u16::from_le_bytes([*size_low, *size_high]);
        Some(Self { id: u32::from_le_bytes(*id), outer_bytes })
    }

    fn write(self, kind: u8, into: &mut [u8]) {
        into[0] = kind;
        into[2..4].copy_from_slice(&self.outer_bytes.to_le_bytes());
        into[4..PROBE_BYTES].copy_from_slice(&self.id.to_le_bytes());
    }
}

impl Ping {
    fn read(bytes: &[u8]) -> Option<Self> {
        let heard = bytes.get(NUMBERED_BYTES..PING_BYTES).and_then(|heard| heard.first_chunk());
        Some(Self { number: number(bytes)?, heard: heard.copied().map(u64::from_le_bytes) })
    }

    fn write(self, into: &mut [u8]) {
        write_number(PING, self.number, into);
        if let Some(heard) = self.heard {
            into[NUMBERED_BYTES..PING_BYTES].copy_from_slice(&heard.to_le_bytes());
        }
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    let [_, 0, 0, 0, number @ ..] = bytes.first_chunk::<NUMBERED_BYTES>()? else { return None };
    Some(u64::from_le_bytes(*number))
}

impl Control {
    /// How many bytes it is written to, without padding.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Keepalive => 0,
            Self::Probe(_) | Self::Echo(_) => PROBE_BYTES,
            Self::Ping(Ping { heard: Some(_), .. }) => PING_BYTES,
            Self::Challenge(_) | Self::Answer(_) | Self::Ping(_) | Self::PingBack(_) => {
                NUMBERED_BYTES
            }
        }
    }

    /// Writes it to the beginning of zeroed bytes.
    pub(crate) fn write(self, into: &mut [u8]) {
        match self {
            Self::Keepalive => {}
            Self::Probe(probe) => probe.write(PROBE, into),
            Self::Echo(probe) => probe.write(ECHO, into),
            Self::Challenge(number) => write_number(CHALLENGE, number, into),
            Self::Answer(number) => write_number(ANSWER, number, into),
            Self::Ping(ping) => ping.write(into),
            Self::PingBack(number) => write_number(PING_BACK, number, into),
        }
    }
}

fn write_number(kind: u8, number: u64, into: &mut [u8]) {
    into[0] = kind;
    into[4..NUMBERED_BYTES].copy_from_slice(&number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_as_it_was_written() {
        let probe = Probe { id: 0x0102_0304, outer_bytes: 1_500 };
        let mut bytes = [0; 40];
        Control::Probe(probe).write(&mut bytes);
        assert_eq!(bytes[..9], [1, 0, 0xdc, 0x05, 4, 3, 2, 1, 0]);
        assert_eq!(Content::read(&mut bytes), Content::Control(Control::Probe(probe)));
        Control::Echo(probe).write(&mut bytes);
        assert_eq!(
            Content::read(&mut bytes[..PROBE_BYTES]),
            Content::Control(Control::Echo(probe))
        );
        assert_eq!(Content::read(&mut bytes[..PROBE_BYTES - 1]), Content::Nothing);
        bytes.fill(0);
        Control::Challenge(0x0102).write(&mut bytes);
        assert_eq!(bytes[..13], [5, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Content::read(&mut bytes), Content::Control(Control::Challenge(0x0102)));
        assert_eq!(Content::read(&mut bytes[..NUMBERED_BYTES - 1]), Content::Nothing);
        Control::Answer(0x0102).write(&mut bytes);
        assert_eq!(Content::read(&mut bytes), Content::Control(Control::Answer(0x0102)));
        let ping = |heard| Control::Ping(Ping { number: 0x0102, heard });
        ping(Some(0x0304)).write(&mut bytes);
        assert_eq!(bytes[..13], [7, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 4]);
        assert_eq!(Content::read(&mut bytes), Content::Control(ping(Some(0x0304))));
        // Of a release that says nothing of it; and as such a release reads it.
        for cut in NUMBERED_BYTES..PING_BYTES {
            assert_eq!(Content::read(&mut bytes[..cut]), Content::Control(ping(None)));
        }
        assert_eq!(Content::read(&mut bytes[..NUMBERED_BYTES - 1]), Content::Nothing);
        assert_eq!((ping(None).bytes(), ping(Some(0)).bytes()), (NUMBERED_BYTES, PING_BYTES));
        Control::PingBack(0x0102).write(&mut bytes);
        assert_eq!(Content::read(&mut bytes), Content::Control(Control::PingBack(0x0102)));
        assert_eq!(Content::read(&mut [3, 9]), Content::Half(HalfKind::First, &[9]));
        assert_eq!(Content::read(&mut [4]), Content::Half(HalfKind::Second, &[]));
        assert_eq!(Content::read(&mut [0x45, 1]), Content::Packet(&mut [0x45, 1]));
        assert_eq!(Content::read(&mut []), Content::Nothing);
    }
}
