# One machine of a cluster, held by this process: it runs in a network and a mount
# namespace of its own, links them to the LAN, and then waits to be killed.
set -eu

# Process 1 of the bed lives on the LAN's side.
ip link add eth0 type veth peer name "$LINK" netns 1
nsenter --net=/proc/1/ns/net ip link set "$LINK" master lan up
ip link set lo up
ip addr add "$V4/16" dev eth0
ip addr add "$V6/64" dev eth0 nodad
ip link set eth0 up
# Nothing answers there: the bed has no way out, but programs ask for a route.
ip route add default via 10.77.255.254
ip -6 route add default via fd77::ffff
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1

mount --make-rshared /
# Paths that kubelet, containerd and CNI plugins take as constants.
for dir in /run/containerd /run/netns /var/lib/cni /var/lib/kubelet /var/log; do
    mkdir -p "$dir"
    mount -t tmpfs -o mode=755 machine "$dir"
done

echo ready
exec sleep infinity
