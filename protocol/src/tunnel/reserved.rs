//! The addresses of a cluster's pool that stand for no pod and are given to nobody: each is where
//! something of the cluster answers.
//!
//! | from the end | who answers | where |
//! |---|---|---|
//! | the last but one | the name server of guests that run here | on each node, from this cluster alone |
//! | the last but two | the way to this cluster's API server, for its guests elsewhere | at the gateway, through tunnels alone |

use std::net::IpAddr;

use ipnet::IpNet;

/// Where guests of a cluster are told names: the same address of the pool on each of its nodes. None,
/// where the pool has no room.
pub fn name_server(pool: IpNet) -> Option<IpAddr> {
    from_the_end(pool, 1)
}

/// Where guests that run elsewhere reach their home's API server, by TCP: an address of home's pool at
/// its gateway. None, where the pool has no room.
pub fn home_api(pool: IpNet) -> Option<IpAddr> {
    from_the_end(pool, 2)
}

/// Whether a range of the pool has one of these addresses in it.
pub fn is_reserved(pool: IpNet, range: IpNet) -> bool {
    let all = [name_server(pool), home_api(pool)];
    all.into_iter().flatten().any(|address| range.contains(&address))
}

fn from_the_end(pool: IpNet, places: u8) -> Option<IpAddr> {
    let room = pool.max_prefix_len() - pool.prefix_len();
    if room < LEAST_BITS {
        return None;
    }
    Some(match pool.broadcast() {
        IpAddr::V4(last) => IpAddr::V4((last.to_bits() - u32::from(places)).into()),
        IpAddr::V6(last) => IpAddr::V6((last.to_bits() - u128::from(places)).into()),
    })
}

/// A pool with fewer bits is all for pods. The narrowest that an owner may set has ten.
const LEAST_BITS: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_before_the_last_one_of_the_pool() {
        let of = |pool: &str| {
            let pool = pool.parse().unwrap();
            [name_server(pool), home_api(pool)].map(|it| it.map(|it| it.to_string()))
        };
        let some = |names: &str, api: &str| [Some(names.to_owned()), Some(api.to_owned())];
        assert_eq!(of("10.200.0.0/13"), some("10.207.255.254", "10.207.255.253"));
        assert_eq!(of("10.200.0.0/24"), some("10.200.0.254", "10.200.0.253"));
        assert_eq!(of("10.200.0.0/25"), [None, None]);
        assert_eq!(of("fd00:7::/120"), some("fd00:7::fe", "fd00:7::fd"));
        assert_eq!(of("fd00:7::/128"), [None, None]);
    }

    #[test]
    fn no_range_with_one_of_them_is_given() {
        let net = |text: &str| -> IpNet { text.parse().unwrap() };
        let is_reserved = |range| is_reserved(net("10.200.0.0/13"), net(range));
        for range in ["10.207.255.0/24", "10.207.255.253/32", "10.207.255.254/31", "10.200.0.0/13"]
        {
            assert!(is_reserved(range), "{range}");
        }
        for range in ["10.207.254.0/24", "10.207.255.252/32", "10.207.255.255/32"] {
            assert!(!is_reserved(range), "{range}");
        }
    }
}
