//! What a pod finds in the files that Kubernetes makes for it: a guest beside a pod of home's own of the
//! same manifest, for several users and groups. What differs is what docs/virtual-node.md says in its table
//! of them, and all of that does.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::deploy_file;
use mercato_tests::user::User;
use serde_json::{Value, json};

use super::found::IMAGE;
use super::{AUDIENCE, NAMESPACE, NODE};

/// Whose files: root's, a user's, a user's with a group, and two users' of one pod.
const CASES: [&str; 4] = ["root", "user", "group", "two"];
const USER: u32 = 1_000;
const OTHER: u32 = 1_001;
const GROUP: u32 = 2_000;
/// Where the host of each is called the same.
const HOST: &str = "files";
const MADE: &str = "made-for-files";
const PAGE: &str = include_str!("../../../docs/virtual-node.md");
const BEGIN: &str = "<!-- files -->\n";
const END: &str = "<!-- /files -->";

/// What is looked at: a row of the page, and a path by which pods have one of its files.
const FILES: [(&str, &str); 11] = [
    ("/etc/hosts", "/etc/hosts"),
    ("/etc/resolv.conf", "/etc/resolv.conf"),
    ("/etc/hostname", "/etc/hostname"),
    ("/dev/termination-log", "/dev/termination-log"),
    ("serviceAccountToken", "/made/token/token"),
    ("configMap", "/made/ca/ca.crt"),
    ("configMap", "/made/config/key"),
    ("secret", "/made/secret/key"),
    ("downwardAPI", "/made/self/namespace"),
    ("downwardAPI", "/made/self/labels"),
    ("downwardAPI", "/made/self/memory"),
];

/// Of one file: its owner, its mode, whether it is read and written, and what it has.
type File = BTreeMap<&'static str, String>;
/// By case, container and path.
type Files = BTreeMap<(String, String), File>;

/// A difference: the file, and what of it.
type Differences = BTreeSet<(String, String)>;

/// They are as at home, but for what the page says.
pub(crate) async fn are_as_at_home(home: &Cluster) -> Result<()> {
    deploy_file(home, "optional/token-audiences.yaml").await?;
    let user = User::new(home, NAMESPACE);
    for kind in [&["configmap"][..], &["secret", "generic"]] {
        let made = [MADE, "--from-literal=key=value"];
        user.kubectl(&[&["create"], kind, &made].concat()).await?;
    }
    let own = home.machine(1).name();
    let places = [("own", own.as_str()), ("guest", NODE)];
    let all = CASES.iter().flat_map(|case| places.map(|(place, node)| (*case, place, node)));
    let found = all.map(|(case, place, node)| async move {
        user.on(node).makes(&name(case, place), &pod(case)).await?;
        files(&user, case, place).await
    });
    let mut found = try_join_all(found).await?.into_iter();
    let (mut differences, mut lines) = (Differences::new(), Vec::new());
    for case in CASES {
        let (own, guest) = found.next().zip(found.next()).context("one is missing")?;
        let all = 2 * FILES.len();
        ensure!(own.len() == all && guest.len() == all, "{case}: {own:?} and {guest:?}");
        for (place, file) in &own {
            let there = guest.get(place).with_context(|| format!("{case}: no {place:?}"))?;
            let row = FILES.iter().find(|(_, path)| *path == place.1);
            let (row, _) = row.with_context(|| format!("{case}: {place:?}"))?;
            for (what, is) in file.iter().filter(|(what, is)| there.get(*what) != Some(is)) {
                differences.insert(((*row).to_owned(), (*what).to_owned()));
                let there = there.get(what);
                lines.push(format!("{case} {place:?}: {what} is {is:?}, and of a guest {there:?}"));
            }
        }
    }
    let (said, rows) = said()?;
    let looked: BTreeSet<_> = FILES.iter().map(|(row, _)| (*row).to_owned()).collect();
    ensure!(looked == rows, "these were looked at: {looked:?}; the page has {rows:?}");
    let all = lines.join("\n");
    ensure!(differences == said, "the page says of other files that they differ: {said:?}\n{all}");
    let pods = CASES.map(|case| places.map(|(place, _)| name(case, place)));
    let pods: Vec<&str> = pods.iter().flatten().map(String::as_str).collect();
    user.kubectl(&[&["delete", "--wait=false", "pod"][..], &pods].concat()).await?;
    user.kubectl(&["delete", "configmap,secret", MADE]).await.map(drop)
}

fn name(case: &str, place: &str) -> String {
    format!("files-{case}-{place}")
}

/// What the page says: what of each file differs, in the last cell of its row; and which files it has.
fn said() -> Result<(Differences, BTreeSet<String>)> {
    let table = PAGE.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    let (table, _) = table.context("docs/virtual-node.md has no table of files")?;
    let (mut said, mut rows) = (Differences::new(), BTreeSet::new());
    for row in table.lines().filter(|row| row.starts_with("| `")) {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
        let [first, .., last] = &cells[..] else { continue };
        let quoted = |text: &str, mark: char| -> Vec<String> {
            text.split(mark).skip(1).step_by(2).map(str::to_owned).collect()
        };
        for file in quoted(first, '`') {
            said.extend(quoted(last, '*').into_iter().map(|what| (file.clone(), what)));
            rows.insert(file);
        }
    }
    Ok((said, rows))
}

/// What the containers of a pod have said of its files.
async fn files(user: &User<'_>, case: &str, place: &str) -> Result<Files> {
    let name = name(case, place);
    let ended = ["wait", "pod", &name, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=90s"];
    user.kubectl(&ended).await.with_context(|| name.clone())?;
    let get = "jsonpath={.status.podIPs[*].ip}";
    let addresses = user.kubectl(&["get", "pod", &name, "-o", get]).await?;
    let mut files = Files::new();
    for container in ["first", "main"] {
        let said = user.kubectl(&["logs", &name, "-c", container]).await?;
        for line in said.lines() {
            let [path, owner, mode, reads, writes, content] =
                line.splitn(6, ' ').collect::<Vec<_>>()[..]
            else {
                anyhow::bail!("{name} says {line:?}")
            };
            let file = File::from([
                ("owner", owner.to_owned()),
                ("mode", mode.to_owned()),
                ("reads", reads.to_owned()),
                ("writes", writes.to_owned()),
                ("content", plain(path, content, &addresses)),
            ]);
            files.insert((container.to_owned(), path.to_owned()), file);
        }
    }
    Ok(files)
}

/// The content, without what no two pods have alike: an address of theirs, and a token.
fn plain(path: &str, content: &str, addresses: &str) -> String {
    let mut plain = content.to_owned();
    for (address, family) in addresses.split(' ').zip(["IPV4", "IPV6"]) {
        plain = plain.replace(&format!("|{address}\t"), &format!("|{family}\t"));
    }
    if path.ends_with("/token") && content.split('.').count() == 3 { "token".into() } else { plain }
}

/// One whose containers say what they find, and end.
fn pod(case: &str) -> Value {
    let script = "for path in $PATHS; do \
                  reads=no; cat $path >/dev/null 2>&1 && reads=yes; \
                  writes=no; (: >>$path) 2>/dev/null && writes=yes; \
                  content=$({ tr '\\n' '|' <$path; } 2>/dev/null); \
                  echo \"$path $(stat -Lc '%u:%g %a' $path) $reads $writes |$content\"; done";
    let paths = FILES.map(|(_, path)| path).join(" ");
    let mounts = ["ca", "config", "secret", "self", "token"]
        .map(|of| json!({ "name": of, "mountPath": format!("/made/{of}") }));
    let container = |name: &str| {
        json!({
            "name": name, "image": IMAGE, "command": ["sh", "-c", script], "volumeMounts": mounts,
            "resources": { "limits": { "memory": "32Mi" } },
            "env": [{ "name": "PATHS", "value": paths }],
        })
    };
    let (mut first, main) = (container("first"), container("main"));
    let mut security = json!({});
    if case != "root" {
        security["runAsUser"] = json!(USER);
    }
    match case {
        "group" => security["fsGroup"] = json!(GROUP),
        "two" => first["securityContext"] = json!({ "runAsUser": OTHER }),
        _ => {}
    }
    let field = |path: &str, field: &str, mode: u32| json!({ "path": path, "mode": mode, "fieldRef": { "fieldPath": field } });
    let memory = json!({ "path": "memory", "resourceFieldRef": {
        "containerName": "main", "resource": "limits.memory" } });
    let items = [
        field("namespace", "metadata.namespace", 0o444),
        field("labels", "metadata.labels", 0o400),
        memory,
    ];
    json!({
        "restartPolicy": "Never", "hostname": HOST, "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false, "securityContext": security,
        "initContainers": [first], "containers": [main],
        "volumes": [
            { "name": "ca", "projected": { "sources": [
                { "configMap": { "name": "kube-root-ca.crt",
                                 "items": [{ "key": "ca.crt", "path": "ca.crt" }] } }] } },
            { "name": "config", "configMap": { "name": MADE, "defaultMode": 0o640 } },
            { "name": "secret", "secret": { "secretName": MADE, "defaultMode": 0o400 } },
            { "name": "self", "downwardAPI": { "items": items } },
            { "name": "token", "projected": { "sources": [
                { "serviceAccountToken": { "path": "token", "audience": AUDIENCE } }] } },
        ],
    })
}
