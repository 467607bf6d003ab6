# What plays the Internet of the bed, held by this process: a machine to which default routes lead, with
# addresses that are somebody's and some that are nobody's, and another one behind a hop that takes 1,300 bytes.
set -eu

# Process 1 of the bed lives on the LAN's side.
ip link add eth0 type veth peer name internet netns 1
nsenter --net=/proc/1/ns/net ip link set internet master lan up
ip link set lo up
ip addr add "$ROUTER/16" dev eth0
ip addr add "$ROUTER_V6/64" dev eth0 nodad
ip link set eth0 up
# Its own errors come from the private address.
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.icmp_errors_use_inbound_ifaddr=1
for address in $ADDRESSES; do
    ip addr add "$address" dev lo
done
# Who listens at all addresses answers datagrams as that one.
ip route replace 10.77.0.0/16 dev eth0 src "$NAMED"

unshare --net sleep infinity &
behind=$!
until [ "$(readlink /proc/$behind/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
ip link add hop0 type veth peer name eth0 netns "$behind"
ip addr add 192.168.7.1/24 dev hop0
ip link set hop0 mtu 1300 up
ip route add "$BEHIND/32" via 192.168.7.2
in_there="nsenter --net=/proc/$behind/ns/net"
$in_there ip link set lo up
$in_there ip addr add 192.168.7.2/24 dev eth0
$in_there ip link set eth0 up
$in_there ip addr add "$BEHIND/32" dev lo
$in_there ip route add default via 192.168.7.1 src "$BEHIND"

$in_there "$COURIER" serve 7000 &
"$COURIER" serve 25 &
"$COURIER" serve 7000 &
echo ready
wait
