//! The names of the streams on the wire, all in one place.

use libp2p::StreamProtocol;

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Gossip frames, one long-lived stream a neighbour and direction.
    Market,
    /// One request, one answer.
    Negotiation,
    /// Frames of one lease, one stream a direction.
    Workload,
    /// A request, a reply, then raw bytes both ways.
    Kubelet,
    /// The same, with a request that may be longer. Earlier releases do not speak it.
    LongKubelet,
    /// One question about the tunnel, one answer. Earlier releases do not speak it.
    Tunnel,
    /// Bytes that come back, to tell that the other side is there. Earlier releases do not speak it.
    Pulse,
}

impl Protocol {
    pub(crate) const ALL: [Self; 7] = [
        Self::Market,
        Self::Negotiation,
        Self::Workload,
        Self::Kubelet,
        Self::LongKubelet,
        Self::Tunnel,
        Self::Pulse,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Market => "/mercato/market/1",
            Self::Negotiation => "/mercato/negotiation/1",
            Self::Workload => "/mercato/workload/2",
            Self::Kubelet => "/mercato/kubelet/1",
            Self::LongKubelet => "/mercato/kubelet/2",
            Self::Tunnel => "/mercato/tunnel/1",
            Self::Pulse => "/mercato/pulse/1",
        }
    }

    pub(crate) fn of(name: &StreamProtocol) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == name.as_ref())
    }
}

impl From<Protocol> for StreamProtocol {
    fn from(protocol: Protocol) -> Self {
        Self::new(protocol.name())
    }
}
