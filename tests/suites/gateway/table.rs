//! The table of what can be wrong with a gateway.

use super::row::{At, Fault, Mend, Row};

/// As owners turn it on.
pub(crate) const ON: &str = "gateway:\n  enabled: on\n";

/// In the order in which they are played.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "somebody has the UDP port",
        at: At::Rome,
        fault: Fault::Squatter,
        cause: "UDP port 7475 cannot be had for the tunnel: Address already in use",
        cure: "end who has it (ss -ulpn sport = :7475)",
        mend: Mend::End("ss -ulpn sport = :7475"),
    },
    Row {
        name: "there is no /dev/net/tun",
        at: At::Turin,
        // What a container sees that was not given the device.
        fault: Fault::Found("mount -t tmpfs none /dev/net"),
        cause: "cannot open /dev/net/tun: No such file or directory",
        cure: "where the daemon runs in a container give it the device",
        mend: Mend::Script("umount /dev/net"),
    },
    Row {
        name: "packets are not forwarded",
        at: At::Rome,
        fault: Fault::Found("sysctl -qw net.ipv4.ip_forward=0"),
        cause: "this node forwards no IPv4 packets",
        cure: "sysctl -w net.ipv4.ip_forward=1",
        mend: Mend::Script("sysctl -qw net.ipv4.ip_forward=1"),
    },
    Row {
        name: "the pool overlaps with a network of the node",
        at: At::Turin,
        fault: Fault::Found("ip link add vpn0 type bridge; ip addr add 10.201.0.1/24 dev vpn0"),
        cause: "the pool 10.200.0.0/13 overlaps with the address 10.201.0.1/24 of vpn0",
        cure: "set gateway.pool to a range that nothing here uses, and start the daemon again",
        mend: Mend::Again { after: "", config: "gateway:\n  enabled: on\n  pool: 10.216.0.0/13\n" },
    },
    Row {
        name: "the pool overlaps with the range of Services",
        at: At::Turin,
        fault: Fault::Configured("gateway:\n  enabled: on\n  pool: 10.43.128.0/20\n"),
        cause: "the pool 10.43.128.0/20 overlaps with the range 10.43.0.0/16 of the cluster's Services",
        cure: "set gateway.pool to a range that nothing here uses, and start the daemon again",
        mend: Mend::Again { after: "ip link del vpn0", config: ON },
    },
    Row {
        name: "the daemon has no CAP_NET_ADMIN",
        at: At::Rome,
        fault: Fault::Under(&["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]),
        cause: "Operation not permitted",
        cure: "the daemon needs CAP_NET_ADMIN on the node's network: start it as root",
        mend: Mend::Again { after: "", config: ON },
    },
    Row {
        name: "UDP is dropped on the way, in the midst",
        at: At::Both,
        fault: Fault::Comes(
            "nft add table inet wall; nft add chain inet wall in '{ type filter hook input priority 0; }'
             nft add rule inet wall in udp dport 7475 drop",
        ),
        // Neither hears the other: each says what it knows.
        cause: "nothing comes from the other cluster's gateway at",
        cure: "let UDP through in that direction (firewall, NAT)",
        mend: Mend::Script("nft delete table inet wall"),
    },
    Row {
        // A gateway says nothing to who wants to speak to another.
        name: "another gateway is where that of the peer is said to be",
        at: At::Both,
        fault: Fault::Configured("gateway:\n  enabled: on\n  addresses: ['OTHER:7475']\n"),
        cause: "or another gateway is there",
        cure: "have its owner say where it is reached (gateway.addresses)",
        mend: Mend::AgainWithoutKey { config: ON },
    },
];

/// What is named where no bed has it: the fault, the file, and the test in it.
pub(crate) const ELSEWHERE: &[(&str, &str, &str)] = &[(
    "the peer's version has no tunnel",
    "node/src/tunnel/exchange/tests/words.rs",
    "a_peer_without_a_tunnel_is_told_of",
)];
