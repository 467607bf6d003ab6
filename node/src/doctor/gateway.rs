//! The gateway of the tunnels, and what keeps packets on this machine from it.

use mercato_host::{Dropping, Family, HostError, Marks};

use super::Finding;
use crate::admin::{CutOff, OwnGateway};

const CHECK: &str = "gateway";

/// How it is about the gateway, and about what is read of the machine where there is one.
pub(crate) fn gateway(
    own: &OwnGateway,
    dropping: impl FnOnce(&Marks) -> Result<Vec<Dropping>, HostError>,
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
                    let sees = |chain: &&Dropping| chain.family.sees(family);
                    chains.iter().filter(sees).map(|chain| dropped(chain, &marks)).collect()
                }
                Err(error) => vec![Finding::warn(CHECK, error.to_string())],
            };
            let of_nodes = own.cut_off.iter().map(|CutOff { node, reason }| {
                let what = format!("pods on {node} reach no other cluster: {reason}");
                Finding::warn(CHECK, what)
            });
            [vec![runs], others, of_nodes.collect()].concat()
        }
    }
}

fn dropped(chain: &Dropping, marks: &Marks) -> Finding {
    let what = format!(
        "the chain {chain} drops forwarded packets that none of its rules accepts: those between \
         pods and tunnels may be among them"
    );
    chain.cures(&marks.device).into_iter().fold(Finding::warn(CHECK, what), Finding::todo)
}

#[cfg(test)]
mod tests {
    use mercato_host::PacketFamily;

    use super::super::Verdict;
    use super::*;

    fn chain() -> Dropping {
        let (table, chain) = ("filter".to_owned(), "FORWARD".to_owned());
        Dropping { family: PacketFamily::Ip, table, chain }
    }

    #[test]
    fn a_chain_that_drops_is_named_where_there_is_a_gateway() {
        let look = |own: &OwnGateway| gateway(own, |_| Ok(vec![chain()]));
        let verdicts = |own: &OwnGateway| -> Vec<Verdict> {
            look(own).into_iter().map(|finding| finding.verdict).collect()
        };
        let off = OwnGateway::default();
        assert_eq!(verdicts(&off), [Verdict::Ok]);
        let cannot = OwnGateway { reason: Some("no /dev/net/tun".to_owned()), ..off.clone() };
        assert_eq!(verdicts(&cannot), [Verdict::Fail]);
        let runs = OwnGateway { enabled: true, port: Some(7475), ..off };
        assert_eq!(verdicts(&runs), [Verdict::Ok, Verdict::Warn]);
        let (node, reason) = ("n2".to_owned(), "nobody answers".to_owned());
        let cut_off = vec![CutOff { node, reason }];
        let cut = look(&OwnGateway { cut_off, ..runs.clone() }).pop().unwrap();
        assert_eq!((cut.verdict, cut.what.contains("n2")), (Verdict::Warn, true));
        let named = &look(&runs)[1];
        assert!(named.what.contains("ip filter FORWARD"), "{named:?}");
        assert_eq!(named.todo[0], "nft insert rule ip filter FORWARD iifname mercato0 accept");
    }
}
