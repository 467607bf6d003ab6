//! A federation by the command line: founded, joined by a token, traded in without a word of
//! trust, and left by one who is thrown out.

use std::net::SocketAddr;

use serde_json::Value;

use crate::kit::{Daemon, done, run, run_in_vain, stderr, stdout};
use crate::name_server::NameServer;

const SHARE: [&str; 8] =
    ["share", "set", "--cpu", "50%", "--memory", "50%", "--price", "cpu=0.60 EUR/h"];
const CLUSTER: [&str; 2] = ["--simulated-cluster", "cpu=8,memory=16Gi,pods=110"];
const ORDER: [&str; 11] =
    ["order", "--cpu", "1", "--memory", "2Gi", "--pods", "10", "--for", "1h", "-o", "json"];

fn refused(daemon: &Daemon, args: &[&str], code: i32) -> String {
    let output = daemon.ask(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
    stderr(&output)
}

/// A federation of turin's.
fn found(turin: &Daemon) {
    let file = turin.file("alps.root");
    let said = done(turin, &["federation", "create", "alps", "--root-key", &file]);
    assert!(said.contains("turin is a registrar of alps"), "{said}");
    let again = refused(turin, &["federation", "create", "alps", "--root-key", &file], 1);
    assert!(again.contains("--root-key"), "{again}");
}

fn standing(of: &Daemon, name: &str, is: &str) {
    of.wait_for(&["peers", "-o", "json"], |peers| {
        let all = peers.as_array().cloned().unwrap_or_default();
        all.iter().any(|peer| peer["name"] == name && peer["standing"] == is)
    });
}

fn order(rome: &Daemon, turin: &Daemon) -> String {
    let id = rome.json(&ORDER)["id"].as_str().unwrap().to_owned();
    for side in [rome, turin] {
        side.wait_for(&["contracts", "show", &id, "-o", "json"], |deal| deal["state"] == "active");
    }
    id
}

#[test]
fn members_trade_until_one_is_thrown_out() {
    let turin = Daemon::start("turin", &[]);
    let rome = Daemon::start("rome", &[&turin.address()]);
    done(&turin, &[&SHARE[..], &["--allow", "federation=alps"]].concat());
    rome.wait_for(&["browse", "-o", "json"], |browse| browse["suiting"] == 1);
    let unknown = refused(&turin, &["federation", "token"], 3);
    assert!(unknown.contains("mercato federation create"), "{unknown}");
    found(&turin);
    refused(&rome, &ORDER, 1);

    let token = done(&turin, &["federation", "token", "--org", "sapienza"]);
    let joined = done(&rome, &["federation", "join", token.trim()]);
    assert!(joined.contains("as provider, consumer, until"), "{joined}");
    assert!(joined.contains("sapienza"), "{joined}");
    standing(&rome, "turin", "trusted");
    standing(&turin, "rome", "trusted");
    for side in [&turin, &rome] {
        let members = ["federation", "members", "-o", "json"];
        let members = side.wait_for(&members, |all| all.as_array().is_some_and(|a| a.len() == 2));
        let of = |member: &Value| member["organisation"] == "sapienza";
        assert!(members.as_array().unwrap().iter().any(of), "{members}");
    }
    let table = done(&turin, &["federation", "members"]);
    assert!(table.contains("provider, consumer, registrar"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let running = order(&rome, &turin);

    // A token is for one cluster.
    let oslo = Daemon::start("oslo", &[&turin.address()]);
    let used = refused(&oslo, &["federation", "join", token.trim()], 4);
    assert!(used.contains("used before"), "{used}");
    let bad = refused(&oslo, &["federation", "join", "mercato-join-AAAA"], 2);
    assert!(bad.contains("no join token"), "{bad}");
    // Whom it let in may say it again.
    let asked = refused(&rome, &["federation", "join", token.trim()], 2);
    assert!(asked.contains("of alps already, of organisation sapienza"), "{asked}");
    done(&rome, &["federation", "join", token.trim(), "--yes"]);

    let unasked = refused(&turin, &["federation", "revoke", "rome"], 2);
    assert!(unasked.contains("cannot join again"), "{unasked}");
    let revoked = done(&turin, &["federation", "revoke", "rome", "--yes"]);
    assert!(revoked.contains("revocation list 2"), "{revoked}");
    standing(&turin, "rome", "stranger");
    let table = done(&turin, &["federation", "members"]);
    assert!(table.contains("revoked"), "{table}");
    let deal = turin.json(&["contracts", "show", &running, "-o", "json"]);
    assert_eq!(deal["state"], "active", "what runs goes on");
    // What it asks for now waits for an answer, like that of any stranger.
    let asked = rome.json(&ORDER)["id"].as_str().unwrap().to_owned();
    turin.wait_for(&["requests", "-o", "json"], |all| all[0]["id"] == asked.as_str());
    let token = done(&turin, &["federation", "token"]);
    let again = refused(&rome, &["federation", "join", token.trim()], 4);
    assert!(again.contains("revoked"), "{again}");
    // Its people are told.
    for kind in ["federation_joined", "federation_revoked"] {
        let told = |events: &Value| {
            let is = |event: &Value| event["kind"] == kind && event["federation"]["name"] == "alps";
            events.as_array().is_some_and(|events| events.iter().any(is))
        };
        rome.wait_for(&["events", "-o", "json"], told);
    }
    rome.wait_for_text(&["status"], |text| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        text.contains("not a member of alps any more: its certificate was revoked")
    });
    [oslo, rome, turin].into_iter().for_each(Daemon::stop);
}

#[test]
fn a_membership_lasts_over_restarts_and_ends_by_leaving() {
    let turin = Daemon::start("turin", &[]);
    found(&turin);
    let rome = Daemon::start("rome", &[&turin.address()]);
    let token = done(&turin, &["federation", "token", "--role", "consumer", "--for", "1h"]);
    let long = refused(&turin, &["federation", "token", "--for", "2d"], 2);
    assert!(long.contains("at most one day"), "{long}");
    done(&rome, &["federation", "join", token.trim()]);
    let before = rome.json(&["federation", "-o", "json"]);
    let rome = rome.restart();
    let after = rome.json(&["federation", "-o", "json"]);
    for same in ["id", "roles", "untilMs", "list"] {
        assert_eq!(after[0][same], before[0][same], "{same}");
    }
    assert_eq!(before[0]["roles"][0], "consumer");
    let registrar = refused(&turin, &["federation", "leave", "--yes"], 1);
    assert!(registrar.contains("registrar"), "{registrar}");
    let none = refused(&rome, &["federation", "token"], 1);
    assert!(none.contains("no registrar"), "{none}");
    done(&rome, &["federation", "leave", "--yes"]);
    assert!(stdout(&rome.ask(&["federation"])).contains("joined no federation"));
    [rome, turin].into_iter().for_each(Daemon::stop);
}

#[test]
fn a_federation_is_found_by_its_dns_name() {
    let turin = Daemon::start("turin", &[]);
    found(&turin);
    let unknown = refused(&turin, &["federation", "dns"], 2);
    assert!(unknown.contains("alps.example"), "{unknown}");
    // Only that name server knows the host.
    let address = turin.address().replace("/ip4/127.0.0.1/", "/dns/hub.alps.example/");
    let mut zone = done(&turin, &["federation", "dns", "alps.example", "--peer", &address]);
    assert!(zone.contains("_mercato.alps.example. IN TXT \"v=mercato1 root="), "{zone}");
    zone += "hub.alps.example. IN A 127.0.0.1\n";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(NameServer::start(&zone));
    let dns = server.address.to_string();

    let rome = Daemon::start_with("rome", &[&CLUSTER[..], &["--dns", &dns]].concat());
    let nothing = refused(&rome, &["federation", "join", "apennines.example"], 3);
    assert!(nothing.contains("_mercato.apennines.example."), "{nothing}");
    let unasked = refused(&rome, &["federation", "join", "alps.example"], 2);
    assert!(unasked.contains("whose fingerprint is"), "{unasked}");
    assert!(stdout(&rome.ask(&["federation"])).contains("joined no federation"));
    let joined = done(&rome, &["federation", "join", "alps.example", "--yes"]);
    assert!(joined.contains("alps.example") && joined.contains("not a member"), "{joined}");
    standing(&rome, "turin", "trusted");
    let found_by_dns = |peers: &Value| {
        let all = peers.as_array().cloned().unwrap_or_default();
        all.iter().any(|peer| peer["found"][0] == "dns" && peer["connected"].is_string())
    };
    rome.wait_for(&["peers", "-o", "json"], found_by_dns);
    // It belongs by a token; the name stays.
    let token = done(&turin, &["federation", "token"]);
    let joined = done(&rome, &["federation", "join", token.trim()]);
    assert!(joined.contains("as provider, consumer") && joined.contains("alps.example"));

    let rome =
        rome.restart_as(&[&CLUSTER[..], &["--dns", &dns, "--join", "alps.example"]].concat());
    rome.wait_for(&["peers", "-o", "json"], found_by_dns);
    // A daemon joins unseen no more than a person does.
    let home = tempfile::TempDir::new().unwrap();
    let start = ["run", "--no-lan", "--no-kubernetes", "--listen", "127.0.0.1:0", "--dns", &dns];
    let data = home.path().to_str().unwrap();
    let join = ["--join", "alps.example", "--data-dir", data];
    let output = run(home.path(), &[&start[..], &join].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("fingerprint"), "{}", stderr(&output));
    [rome, turin].into_iter().for_each(Daemon::stop);
}

/// What `cluster` publishes of its federation under `alps.example`, on a name server of its own.
fn announced(cluster: &Daemon, runtime: &tokio::runtime::Runtime) -> NameServer {
    let file = cluster.file("alps.root");
    done(cluster, &["federation", "create", "alps", "--root-key", &file]);
    let zone = done(cluster, &["federation", "dns", "alps.example"]);
    runtime.block_on(NameServer::start(&zone))
}

#[test]
fn a_domain_cannot_replace_the_federation_that_was_joined_by_it() {
    let [turin, oslo] = ["turin", "oslo"].map(|name| Daemon::start(name, &[]));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let [right, wrong] = [&turin, &oslo].map(|cluster| announced(cluster, &runtime));
    let fingerprint = |of: &Daemon| {
        let id = of.json(&["federation", "-o", "json"])[0]["id"].clone();
        format!("alps.example@{}", id.as_str().unwrap())
    };
    let (turins, oslos) = (fingerprint(&turin), fingerprint(&oslo));
    let options = |dns: SocketAddr, join: &str| {
        let dns = dns.to_string();
        let fixed = ["--no-kubernetes", "--listen", "127.0.0.1:0", "--dns"];
        fixed.into_iter().chain([&*dns, "--join", join]).map(str::to_owned).collect::<Vec<_>>()
    };
    let refused_at_start = |home: &std::path::Path, options: Vec<String>, more: &[&str]| {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let data = ["--data-dir", home.to_str().unwrap()];
        let output = run_in_vain(home, &[&["run", "--no-lan"], &options[..], more, &data].concat());
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        stderr(&output)
    };
    let start = |options: Vec<String>, dir| {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let rome = Daemon::start_joining(dir, "rome", &options);
        let ids = rome.wait_for(&["federation", "-o", "json"], |all| all[0]["id"].is_string());
        assert_eq!(ids.as_array().map(Vec::len), Some(1), "{ids}");
        assert!(turins.ends_with(ids[0]["id"].as_str().unwrap()), "{ids}");
        rome
    };
    // The one that is named, and no other.
    let home = tempfile::TempDir::new().unwrap();
    let said = refused_at_start(home.path(), options(wrong.address, &turins), &["--yes"]);
    assert!(said.contains("another federation than the one that was named"), "{said}");
    let rome = start(options(right.address, &turins), home);
    // The one that was joined, whoever answers later and whatever --yes says.
    let other = refused(&rome, &["federation", "join", &oslos], 1);
    assert!(other.contains("another federation than the one that was named"), "{other}");
    let home = rome.kill();
    for more in [&["--yes"][..], &[]] {
        let said = refused_at_start(home.path(), options(wrong.address, "alps.example"), more);
        assert!(said.contains("another federation than the one that was joined"), "{said}");
        assert!(said.contains("mercato federation join alps.example@FINGERPRINT"), "{said}");
    }
    let rome = start(options(right.address, "Alps.Example."), home);
    // A name server that is away keeps nobody from what is known.
    let home = rome.kill();
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let gone = silent.local_addr().unwrap();
    drop(silent);
    let rome = start(options(gone, "alps.example"), home);
    rome.wait_for_log("the federation is known from an earlier start");
    [rome, oslo, turin].into_iter().for_each(Daemon::stop);
}

#[test]
fn nobody_is_told_of_an_address_that_others_cannot_reach() {
    let turin = Daemon::start_unpublished("turin");
    found(&turin);
    for args in [&["federation", "token"][..], &["federation", "dns", "alps.example"]] {
        let said = refused(&turin, args, 1);
        assert!(said.contains("--public-address HOST[:PORT]"), "{said}");
    }
    let status = turin.json(&["status", "-o", "json"]);
    assert_eq!(status["daemon"]["addresses"].as_array().map(Vec::len), Some(0), "{status}");
    let text = done(&turin, &["status"]);
    assert!(text.contains("no address of this daemon can be reached"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let other = done(&turin, &["federation", "dns", "alps.example", "--peer", "hub.example:7474"]);
    assert!(other.contains("SRV 10 10 7474 hub.example.") && !other.contains("127.0.0"), "{other}");
    turin.stop();
}

#[test]
fn the_root_is_replaced_and_throws_a_registrar_out() {
    let turin = Daemon::start("turin", &[]);
    found(&turin);
    let [old, new] = ["alps.root", "alps-2.root"].map(|name| turin.file(name));
    let rome = Daemon::start("rome", &[&turin.address()]);
    let oslo = Daemon::start("oslo", &[&turin.address(), &rome.address()]);
    let token = done(&turin, &["federation", "token"]);
    done(&rome, &["federation", "join", token.trim()]);
    done(&oslo, &["federation", "registrar", &old]);
    standing(&rome, "oslo", "trusted");

    let unasked = refused(&turin, &["federation", "rotate", &old], 2);
    assert!(unasked.contains("Contracts run on"), "{unasked}");
    let rotate = ["federation", "rotate", &old, "--new-key", &new, "--yes"];
    let said = done(&turin, &rotate);
    assert!(said.contains("turin is a registrar of alps"), "{said}");
    let root = |of: &Daemon| of.json(&["federation", "-o", "json"])[0]["root"].clone();
    let (first, id) = (root(&oslo), oslo.json(&["federation", "-o", "json"])[0]["id"].clone());
    assert_ne!(root(&turin), first);
    // A member hears of it from its registrar.
    rome.wait_for(&["federation", "-o", "json"], |all| all[0]["root"] == root(&turin));
    assert_eq!(rome.json(&["federation", "-o", "json"])[0]["id"], id);
    standing(&rome, "turin", "trusted");
    standing(&turin, "rome", "trusted");
    // What the old key signs counts no more, and a registrar needs the new one.
    standing(&rome, "oslo", "stranger");
    refused(&turin, &["federation", "registrar", &old], 1);
    let again = refused(&turin, &["federation", "rotate", &old, "--yes"], 2);
    assert!(again.contains("not the current root key"), "{again}");
    done(&oslo, &["federation", "registrar", &new]);
    standing(&rome, "oslo", "trusted");

    let unknown = refused(&turin, &["federation", "revoke", "oslo", "--yes"], 2);
    assert!(unknown.contains("--root-key FILE"), "{unknown}");
    let revoke = ["federation", "revoke", "oslo", "--yes", "--root-key"];
    let wrong = refused(&turin, &[&revoke[..], &[&old]].concat(), 2);
    assert!(wrong.contains("not the current root key of alps"), "{wrong}");
    let said = done(&turin, &[&revoke[..], &[&new]].concat());
    assert!(said.contains("oslo is revoked"), "{said}");
    for side in [&turin, &rome] {
        standing(side, "oslo", "stranger");
    }
    oslo.wait_for_text(&["federation"], |text| text.contains("not a member"));
    let none = refused(&oslo, &["federation", "token"], 1);
    assert!(none.contains("no registrar"), "{none}");
    let rome = rome.restart();
    assert_eq!(root(&rome), root(&turin));
    [oslo, rome, turin].into_iter().for_each(Daemon::stop);
}
