//! Whether pods elsewhere reach this cluster's API server, and why, or why not.

use super::told::Told;
use crate::admin::OwnGateway;

/// The condition that says so.
pub(super) const API_ACCESS: &str = "ApiReachable";
/// What its owner has to set.
const NO_GATEWAY: &str =
    "there is no gateway, by whose tunnels they would: set gateway.enabled: on";

/// With what is known of this cluster's end of all tunnels.
pub(super) fn of(gateway: &OwnGateway) -> Told {
    let why = gateway.reason.as_deref().unwrap_or(NO_GATEWAY);
    let not = |reason: &str, why: &str| {
        let message = format!("pods elsewhere do not reach this cluster's API server: {why}");
        Told { holds: false, reason: reason.to_owned(), message }
    };
    match (gateway.enabled, &gateway.api.reason) {
        (false, _) => not("NoGateway", why),
        (true, Some(why)) => not("NotReachable", why),
        (true, None) if gateway.pool.is_some_and(|pool| pool.addr().is_ipv6()) => {
            not("NoIpv4", "gateway.pool is of IPv6; set one of IPv4, with poolV6 beside it")
        }
        (true, None) => Told {
            holds: true,
            reason: "Reachable".to_owned(),
            message: "pods elsewhere reach this cluster's API server as kubernetes.default.svc"
                .to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::OwnApiServer;

    #[test]
    fn why_nobody_reaches_the_api_server_is_said_with_what_to_do() {
        let on = OwnGateway {
            enabled: true,
            pool: "10.200.0.0/13".parse().ok(),
            ..OwnGateway::default()
        };
        assert_eq!((of(&on).holds, &*of(&on).reason), (true, "Reachable"));
        let why = |gateway: &OwnGateway| {
            let reach = of(gateway);
            assert!(!reach.holds, "{reach:?}");
            (reach.reason, reach.message)
        };
        let (reason, said) = why(&OwnGateway::default());
        assert!(reason == "NoGateway" && said.contains("gateway.enabled: on"), "{said}");
        let broken = OwnGateway { reason: Some("no /dev/net/tun".into()), ..OwnGateway::default() };
        assert!(why(&broken).1.ends_with("no /dev/net/tun"));
        let api = OwnApiServer { reason: Some("port 443 is taken".into()), ..on.api.clone() };
        assert_eq!(why(&OwnGateway { api, ..on.clone() }).0, "NotReachable");
        let six = OwnGateway { pool: "fd00::/48".parse().ok(), ..on };
        assert_eq!(why(&six).0, "NoIpv4");
    }
}
