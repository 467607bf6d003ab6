//! The hosts file of a guest that has the address by which home knows it: a kubelet would write that of
//! its own pod network. It is an annotation of the guest, which each container mounts in the place of the
//! kubelet's (`managedHostsFileContent` and `GeneratePodHostNameAndDomain` of its source say how it reads).

use std::fmt::Write as _;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::fields::FIELD;
use super::refs::each;

/// The volume that has it, and what it is called there.
const VOLUME: &str = "mercato-hosts";
const FILE: &str = "hosts";
const PATH: &str = "/etc/hosts";
/// The beginning of a kubelet's own file.
const HEAD: &str = "# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
";
/// The longest name of a host, as a kubelet has it.
const LABEL: usize = 63;
/// How a host is called, whatever its pod's name and subdomain are: Kubernetes 1.35 keeps it by default.
const OVERRIDE: &str = "hostnameOverride";

/// Has each container mount the file that mounts nothing there; gives the annotation that is the file. `home` is the
/// pod as it came, of a home that is called so; none: nobody may be told what it is called.
pub(super) fn mount(
    spec: &mut Value,
    home: &Value,
    domain: Option<&str>,
    called: IpAddr,
) -> Option<(String, String)> {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    if volumes.into_iter().any(|volume| volume["name"] == VOLUME) {
        return None;
    }
    let annotation = format!("{FIELD}{FILE}");
    let field = format!("metadata.annotations['{annotation}']");
    let items = json!([{ "path": FILE, "fieldRef": { "apiVersion": "v1", "fieldPath": field } }]);
    push(spec, "volumes", json!({ "name": VOLUME, "downwardAPI": { "items": items } }));
    for sort in ["initContainers", "containers"] {
        each(spec, sort, &mut |container| {
            let mut mounts = container["volumeMounts"].as_array().into_iter().flatten();
            if !mounts.any(|mount| mount["mountPath"] == PATH) {
                let ours = json!({ "name": VOLUME, "mountPath": PATH, "subPath": FILE });
                push(container, "volumeMounts", ours);
            }
        });
    }
    Some((annotation, file(home, domain, called)))
}

fn push(to: &mut Value, field: &str, value: Value) {
    match to[field].as_array_mut() {
        Some(list) => list.push(value),
        None => to[field] = json!([value]),
    }
}

/// The name of a pod's host, and its full name where it has a subdomain and its cluster says what it is called.
fn names(home: &Value, domain: Option<&str>) -> (String, Option<String>) {
    let (spec, metadata) = (&home["spec"], &home["metadata"]);
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    if let Some(alone) = text(&spec["hostnameOverride"]) {
        return (alone, None);
    }
    let name = text(&spec["hostname"]).or_else(|| text(&metadata["name"])).unwrap_or_default();
    let name = name.get(..LABEL).map_or(&*name, |cut| cut.trim_end_matches(['-', '.']));
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let full = text(&spec["subdomain"]).zip(domain);
    let full = full.map(|(of, domain)| format!("{name}.{of}.{namespace}.svc.{domain}"));
    (name.to_owned(), full)
}

/// Has the host of a guest be called by its full name at home, where its pod says so: a kubelet over there would
/// make it of the guest namespace and of its own domain. One that it would cut off stays as it is.
pub(super) fn call_in_full(spec: &mut Value, home: &Value, domain: Option<&str>) {
    let full = names(home, domain).1.filter(|full| full.get(..=LABEL).is_none());
    let Some(full) = full.filter(|_| home["spec"]["setHostnameAsFQDN"] == true) else { return };
    // An API server takes no pod that has both.
    spec.as_object_mut().map(|spec| spec.remove("setHostnameAsFQDN"));
    spec[OVERRIDE] = json!(full);
}

/// That the API server has not kept how a guest's host is called; none: it has, or was not told.
pub(super) fn is_uncalled(forged: &Value, stored: &Value) -> bool {
    !forged["spec"][OVERRIDE].is_null() && stored["spec"][OVERRIDE].is_null()
}

fn file(home: &Value, domain: Option<&str>, called: IpAddr) -> String {
    let (name, full) = names(home, domain);
    let mut file = HEAD.to_owned();
    // Nothing can fail that writes to a text.
    let _ = match full {
        Some(full) => writeln!(file, "{called}\t{full}\t{name}"),
        None => writeln!(file, "{called}\t{name}"),
    };
    let spec = &home["spec"];
    let aliases = spec["hostAliases"].as_array().map_or(&[][..], Vec::as_slice);
    if !aliases.is_empty() {
        file.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        let names = alias["hostnames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let names = names.collect::<Vec<_>>().join("\t");
        let _ = writeln!(file, "{}\t{names}", alias["ip"].as_str().unwrap_or_default());
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 203, 0, 7));

    fn last(home: &Value) -> String {
        let file = file(home, Some("rome.example"), AT);
        file.strip_prefix(HEAD).unwrap().to_owned()
    }

    #[test]
    fn a_host_is_called_as_a_kubelet_calls_it() {
        let metadata = json!({ "name": "db-0", "namespace": "shop" });
        let pod = |spec: Value| json!({ "metadata": metadata, "spec": spec });
        assert_eq!(last(&pod(json!({}))), "10.203.0.7\tdb-0\n");
        let of = json!({ "hostname": "db-0", "subdomain": "db" });
        assert!(file(&pod(of.clone()), None, AT).ends_with("10.203.0.7\tdb-0\n"));
        assert_eq!(last(&pod(of)), "10.203.0.7\tdb-0.db.shop.svc.rome.example\tdb-0\n");
        let alone = json!({ "hostnameOverride": "db.example", "subdomain": "db" });
        assert_eq!(last(&pod(alone)), "10.203.0.7\tdb.example\n");
        let long = format!("{}-{}", "a".repeat(62), "b".repeat(9));
        let long = json!({ "metadata": { "name": long }, "spec": {} });
        assert_eq!(last(&long), format!("10.203.0.7\t{}\n", "a".repeat(62)));
        let aliases = json!({ "hostAliases": [{ "ip": "10.1.1.1", "hostnames": ["a", "b"] }] });
        let expected = "10.203.0.7\tdb-0\n\n# Entries added by HostAliases.\n10.1.1.1\ta\tb\n";
        assert_eq!(last(&pod(aliases)), expected);
    }

    #[test]
    fn who_mounts_a_file_of_its_own_there_has_that() {
        let own = json!([{ "name": "own", "mountPath": "/etc/hosts", "subPath": "h" }]);
        let mut spec = json!({ "containers": [{ "name": "a" }, { "name": "b", "volumeMounts": own }],
            "initContainers": [{ "name": "c" }] });
        let home = json!({ "metadata": { "name": "web" }, "spec": spec });
        let (annotation, _) = mount(&mut spec, &home, Some("rome.example"), AT).unwrap();
        let item = &spec["volumes"][0]["downwardAPI"]["items"][0];
        let path = format!("metadata.annotations['{annotation}']");
        assert_eq!(item["fieldRef"]["fieldPath"], path);
        let ours = json!([{ "name": VOLUME, "mountPath": PATH, "subPath": FILE }]);
        assert_eq!(spec["containers"][0]["volumeMounts"], ours);
        assert_eq!(spec["initContainers"][0]["volumeMounts"], ours);
        assert_eq!(spec["containers"][1]["volumeMounts"], own);
        assert_eq!(mount(&mut spec, &home, None, AT), None, "it is there already");
    }
}
