//! Hosts by their names: the owner's name server is asked for them.

use crate::kit::Daemon;
use crate::name_server::NameServer;

#[test]
fn a_peer_is_reached_by_a_name_that_only_the_owners_name_server_knows() {
    let turin = Daemon::start("turin", &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let zone = "$TTL 60\nhub.example. IN A 127.0.0.1\n";
    let server = runtime.block_on(NameServer::start(zone));
    let address = turin.address().replace("/ip4/127.0.0.1/", "/dns/hub.example/");
    assert!(address.starts_with("/dns/hub.example/"), "{address}");
    let dns = server.address.to_string();
    let options = ["--no-kubernetes", "--dns", &dns, "--peer", &address];
    let rome = Daemon::start_with("rome", &options);
    rome.wait_for(&["peers", "-o", "json"], |peers| {
        let all = peers.as_array().cloned().unwrap_or_default();
        all.iter().any(|peer| peer["name"] == "turin" && peer["connected"].is_string())
    });
    [rome, turin].into_iter().for_each(Daemon::stop);
}
