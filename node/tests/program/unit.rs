//! The units of systemd that `config/deploy` has: systemd itself finds nothing wrong in them, where it is
//! there, and the program takes what they start it with.

use std::collections::BTreeMap;
use std::process::Command;

use crate::kit::{Daemon, run, stderr};

const UNIT: &str = include_str!("../../../config/deploy/mercato.service");
const HEARTBEAT: &str = include_str!("../../../config/deploy/mercato-heartbeat.service");

/// The keys of a unit's sections, each once, with its value; what systemd would pass over fails.
fn keys(unit: &str) -> BTreeMap<(String, String), String> {
    let (mut section, mut keys) = (String::new(), BTreeMap::new());
    for line in unit.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.strip_suffix(']').unwrap().to_owned();
            continue;
        }
        let (key, value) = line.split_once('=').unwrap();
        let is_key = key.bytes().all(|byte| byte.is_ascii_alphanumeric());
        assert!(is_key && !section.is_empty(), "{line}");
        let before = keys.insert((section.clone(), key.to_owned()), value.to_owned());
        assert_eq!(before, None, "{line}");
    }
    keys
}

#[test]
fn each_unit_is_hardened_and_starts_what_the_program_understands() {
    for (unit, missing) in
        [(UNIT, "/etc/mercato/mercato.yaml"), (HEARTBEAT, "/etc/mercato/heartbeat.kubeconfig")]
    {
        hardened_and_understood(&keys(unit), missing);
    }
    let keeps = |key: &str| keys(UNIT)[&("Service".to_owned(), key.to_owned())].clone();
    assert_eq!(
        (keeps("StateDirectory"), keeps("StateDirectoryMode")),
        ("mercato".to_owned(), "0700".to_owned())
    );
}

fn hardened_and_understood(keys: &BTreeMap<(String, String), String>, missing: &str) {
    let service = |key: &str| keys[&("Service".to_owned(), key.to_owned())].clone();
    for (key, value) in [
        ("CapabilityBoundingSet", ""),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("SystemCallFilter", "@system-service"),
        ("User", "mercato"),
    ] {
        assert_eq!(service(key), value, "{key}");
    }
    // The file that it names is not there, which is said once the words are understood.
    let start = service("ExecStart");
    let words: Vec<_> = start.split(' ').skip(1).collect();
    let folder = tempfile::tempdir().unwrap();
    let said = run(folder.path(), &words);
    assert_eq!(said.status.code(), Some(1), "{}", stderr(&said));
    assert!(stderr(&said).contains(missing), "{}", stderr(&said));
}

#[test]
fn systemd_finds_nothing_wrong_in_the_units() {
    let folder = tempfile::tempdir().unwrap();
    let verify = |unit: &str| {
        let file = folder.path().join("mercato.service");
        std::fs::write(&file, unit.replace("/usr/local/bin/mercato", "/bin/true")).unwrap();
        let verify = ["verify", "--man=no", "--recursive-errors=no"];
        Command::new("systemd-analyze").args(verify).arg(&file).output().ok()
    };
    // Where there is no systemd, the other test has read it.
    for unit in [UNIT, HEARTBEAT] {
        let Some(said) = verify(unit) else { return };
        assert!(said.status.success() && said.stderr.is_empty(), "{}", stderr(&said));
    }
    let said = verify(&UNIT.replace("NoNewPrivileges", "NoNewPrivilege")).unwrap();
    assert!(stderr(&said).contains("NoNewPrivilege"), "it is not read: {}", stderr(&said));
}

/// A starter without a unit leaves it fewer, of which name servers alone may use more.
#[test]
fn it_takes_as_many_files_as_the_unit_gives_it() {
    let key = ("Service".to_owned(), "LimitNOFILE".to_owned());
    let most: u64 = keys(UNIT)[&key].parse().unwrap();
    let [now, may] = Daemon::start_unpublished("turin").files();
    assert_eq!(now, may.min(most));
}
