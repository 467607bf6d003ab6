//! The gateway of the tunnels, and what keeps packets on this machine from it.

use mercato_host::HostError;
use mercato_kubelet::names::{GATEWAY, GATEWAY_OFF};
use mercato_machine::{Dropping, Family, Marks, Network};

use super::Finding;
use crate::admin::{NodeTrouble, OwnGateway};

const CHECK: &str = "gateway";

/// What kube-proxy makes in IPVS mode, with the addresses of all Services on it.
const IPVS: &str = "kube-ipvs0";

/// How it is about the gateway, and about what is read of the machine where there is one.
pub(crate) fn gateway(
    own: &OwnGateway,
    dropping: impl FnOnce(&Marks) -> Result<Vec<Dropping>, HostError>,
    networks: impl FnOnce(&Marks) -> Result<Vec<Network>, HostError>,
) -> Vec<Finding> {
    match (own.enabled, &own.reason, own.port) {
        (false, Some(why), _) => vec![Finding::fail(CHECK, why)],
        (false, None, _) | (true, _, None) => {
            let what = "it is off (gateway.enabled): pods elsewhere cannot be called";
            vec![Finding::ok(CHECK, what)]
        }
        (true, _, Some(port)) => {
            let runs = Finding::ok(CHECK, format!("there is one, at UDP port {port}"));
            let marks = Marks::default();
            let others = match dropping(&marks) {
                Ok(chains) => {
                    let family = own.pool.map_or(Family::V4, Family::of_net);
                    let second = own.pool_v6.map(Family::of_net);
                    let sees = |chain: &&Dropping| {
                        chain.family.sees(family) || second.is_some_and(|it| chain.family.sees(it))
                    };
                    chains.iter().filter(sees).map(dropped).collect()
                }
                Err(error) => vec![Finding::warn(CHECK, error.to_string())],
            };
            let proxy = match networks(&marks) {
                Ok(all) => all.iter().any(has_ipvs).then(ipvs),
                Err(error) => Some(Finding::warn(CHECK, error.to_string())),
            };
            let others = others.into_iter().chain(proxy).collect();
            let of_nodes = own.cut_off.iter().map(|NodeTrouble { node, reason }| {
                let what = format!("pods on {node} reach no other cluster: {reason}");
                let leave =
                    format!("or leave it out: kubectl label node {node} {GATEWAY}={GATEWAY_OFF}");
                Finding::warn(CHECK, what).todo(leave)
            });
            let left_out = own.left_out.iter().map(|node| {
                let back =
                    format!("to have it take part again: kubectl label node {node} {GATEWAY}-");
                let what = format!("{node} is left out by its label, and runs no guests; {back}");
                Finding::ok(CHECK, what)
            });
            let second = own.reason_v6.as_ref().map(|why| {
                let what = format!("pods of other clusters are reached by IPv4 alone: {why}");
                Finding::warn(CHECK, what)
            });
            let untold = own.untold.iter().map(|NodeTrouble { node, reason }| {
                let what = format!("{node} is not told all that leases need: {reason}");
                Finding::warn(CHECK, what)
            });
            let of_nodes = of_nodes.chain(untold).chain(left_out).chain(guests(own)).collect();
            [vec![runs], others, second.into_iter().collect(), of_nodes].concat()
        }
    }
}

/// Whether guests are closed wherever they may run, and told names there by us: none is sold so before.
fn guests(own: &OwnGateway) -> Vec<Finding> {
    if own.open.is_empty() && own.unnamed.is_empty() {
        let what = "guests are closed on each node: networkIsolation: required can be sold";
        return vec![Finding::ok(CHECK, what)];
    }
    let all = |on: &[NodeTrouble], lack: &str| -> Vec<Finding> {
        let one = |NodeTrouble { node, reason }: &NodeTrouble| {
            let what = format!(
                "guests on {node} are {lack}, and networkIsolation: required is not sold: {reason}"
            );
            Finding::warn(CHECK, what)
        };
        on.iter().map(one).collect()
    };
    [all(&own.unnamed, "told no names of their home"), all(&own.open, "not closed")].concat()
}

fn has_ipvs(network: &Network) -> bool {
    network.device.as_deref() == Some(IPVS)
}

fn ipvs() -> Finding {
    let what = format!(
        "kube-proxy is in IPVS mode (device {IPVS}): what goes to Services is not seen by rules about \
         forwarded packets, and tunnels were never tried with it"
    );
    Finding::warn(CHECK, what).todo("set kube-proxy's --proxy-mode to nftables, or to iptables")
}

fn dropped(chain: &Dropping) -> Finding {
    let what = format!(
        "the chain {chain} drops forwarded packets that none of its rules accepts: those between \
         pods and tunnels may be among them"
    );
    chain.cures().into_iter().fold(Finding::warn(CHECK, what), Finding::todo)
}

#[cfg(test)]
mod tests {
    use mercato_machine::{NetworkKind, PacketFamily};

    use super::super::Verdict;
    use super::*;

    fn chain() -> Dropping {
        let (table, chain) = ("filter".to_owned(), "FORWARD".to_owned());
        Dropping { family: PacketFamily::Ip, table, chain }
    }

    #[test]
    fn a_chain_that_drops_is_named_where_there_is_a_gateway() {
        let look = |own: &OwnGateway| gateway(own, |_| Ok(vec![chain()]), |_| Ok(vec![]));
        let verdicts = |own: &OwnGateway| -> Vec<Verdict> {
            look(own).into_iter().map(|finding| finding.verdict).collect()
        };
        let off = OwnGateway::default();
        assert_eq!(verdicts(&off), [Verdict::Ok]);
        let cannot = OwnGateway { reason: Some("no /dev/net/tun".to_owned()), ..off.clone() };
        assert_eq!(verdicts(&cannot), [Verdict::Fail]);
        let runs = OwnGateway { enabled: true, port: Some(7475), ..off };
        assert_eq!(verdicts(&runs), [Verdict::Ok, Verdict::Warn, Verdict::Ok]);
        let (node, reason) = ("n2".to_owned(), "nobody answers".to_owned());
        let cut_off = vec![NodeTrouble { node, reason }];
        let cut = look(&OwnGateway { cut_off, ..runs.clone() }).swap_remove(2);
        assert_eq!((cut.verdict, cut.what.contains("n2")), (Verdict::Warn, true));
        let [node, reason] = ["n2", "who has port 53?"].map(str::to_owned);
        let unnamed = vec![NodeTrouble { node, reason }];
        let silent = look(&OwnGateway { unnamed, ..runs.clone() }).swap_remove(2);
        let says_which = silent.what.contains("n2 are told no names of their home, and networkI");
        assert_eq!((silent.verdict, says_which), (Verdict::Warn, true));
        let [node, reason] = ["n2", "contract 9391d90e: a Service for nobody"].map(str::to_owned);
        let untold = vec![NodeTrouble { node, reason }];
        let left_out = look(&OwnGateway { untold, ..runs.clone() }).swap_remove(2);
        let says_what = left_out.what.contains("n2 is not told all that leases need: contract");
        assert_eq!((left_out.verdict, says_what), (Verdict::Warn, true));
        let reason_v6 = Some("the kernel has none".to_owned());
        let alone = look(&OwnGateway { reason_v6, ..runs.clone() }).swap_remove(2);
        assert_eq!(
            (alone.verdict, alone.what.contains("IPv4 alone: the kernel")),
            (Verdict::Warn, true)
        );
        let [node, reason] = ["n3", "no hooks"].map(str::to_owned);
        let open = vec![NodeTrouble { node, reason }];
        let open = look(&OwnGateway { open, ..runs.clone() }).pop().unwrap();
        assert_eq!(
            (open.verdict, open.what.contains("n3 are not closed, and networkIsolation: required")),
            (Verdict::Warn, true)
        );
        let named = &look(&runs)[1];
        assert!(named.what.contains("ip filter FORWARD"), "{named:?}");
        let cure = "nft insert rule ip filter FORWARD iifname '\"mercato*\"' accept";
        assert_eq!(named.todo[0], cure);
    }
    #[test]
    fn a_proxy_that_passes_by_our_rules_is_named() {
        let runs = OwnGateway { enabled: true, port: Some(7475), ..OwnGateway::default() };
        let net = "10.43.0.1/32".parse().unwrap();
        let by = |device: &str| Network {
            net,
            kind: NetworkKind::Address,
            device: Some(device.to_owned()),
        };
        let said = |device: &str| gateway(&runs, |_| Ok(vec![]), |_| Ok(vec![by(device)])).len();
        assert_eq!((said("eth0"), said("kube-ipvs0")), (2, 3));
    }
}
