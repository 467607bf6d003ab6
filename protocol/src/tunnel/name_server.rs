//! Where guests of a cluster are told names: the same address of the pool on each of its nodes.

use std::net::IpAddr;

use ipnet::IpNet;

/// The last address of the pool but one, which stands for no pod; none, where the pool has no room.
pub fn name_server(pool: IpNet) -> Option<IpAddr> {
    let room = pool.max_prefix_len() - pool.prefix_len();
    if room < LEAST_BITS {
        return None;
    }
    Some(match pool.broadcast() {
        IpAddr::V4(last) => IpAddr::V4((last.to_bits() - 1).into()),
        IpAddr::V6(last) => IpAddr::V6((last.to_bits() - 1).into()),
    })
}

/// A pool with fewer bits is all for pods. The narrowest that an owner may set has ten.
const LEAST_BITS: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_last_one_but_one_of_the_pool() {
        let of = |pool: &str| name_server(pool.parse().unwrap()).map(|it| it.to_string());
        assert_eq!(of("10.200.0.0/13").as_deref(), Some("10.207.255.254"));
        assert_eq!(of("10.200.0.0/24").as_deref(), Some("10.200.0.254"));
        assert_eq!(of("10.200.0.0/25"), None);
        assert_eq!(of("fd00:7::/120").as_deref(), Some("fd00:7::fe"));
        assert_eq!(of("fd00:7::/128"), None);
    }
}
