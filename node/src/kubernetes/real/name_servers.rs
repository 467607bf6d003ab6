//! The name servers of guests. They are not the cluster's own with its search domains, which
//! would answer home's names with the provider's services.

use std::net::IpAddr;
use std::path::Path;

use mercato_config::settings;

/// As many as a pod may have.
const MOST: usize = settings::NAME_SERVERS;

/// Where this machine's own stand; the second, where the first names a resolver on the
/// machine itself, which pods cannot reach.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// Those that the owner names, or else those that the daemon itself uses: it runs in the
/// cluster or beside it. None if there are none that a pod could reach.
pub(crate) fn of_guests(settings: &settings::Guests) -> Vec<IpAddr> {
    if !settings.name_servers.is_empty() {
        return settings.name_servers.clone();
    }
    let read = |path| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let found = FILES.iter().map(|path| reachable(&read(path)));
    found.into_iter().find(|servers| !servers.is_empty()).unwrap_or_default()
}

fn reachable(resolv_conf: &str) -> Vec<IpAddr> {
    let mut servers = Vec::new();
    for line in resolv_conf.lines() {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and(words.next());
        if let Some(Ok(address)) = address.map(str::parse::<IpAddr>)
            && !address.is_loopback()
            && !address.is_unspecified()
            && !servers.contains(&address)
        {
            servers.push(address);
        }
    }
    servers.truncate(MOST);
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_pods_can_reach_are_taken() {
        let text = "# nameserver 192.0.2.1\nsearch example.org\nnameserver 127.0.0.53\n\
            nameserver fe80::1%eth0\nnameserver 192.0.2.2 \nnameserver 192.0.2.2\n\
            nameserver 2001:db8::3\nnameserver ::1\nnameserver 192.0.2.4\nnameserver 192.0.2.5\n";
        let expected: [IpAddr; 3] =
            ["192.0.2.2", "2001:db8::3", "192.0.2.4"].map(|at| at.parse().unwrap());
        assert_eq!(reachable(text), expected);
        assert_eq!(reachable("nameserver 127.0.0.53\n"), Vec::<IpAddr>::new());
    }

    #[test]
    fn the_owners_come_first() {
        let name_servers = vec!["192.0.2.7".parse().unwrap()];
        let settings = settings::Guests { name_servers, ..settings::Guests::default() };
        assert_eq!(of_guests(&settings), settings.name_servers);
    }
}
