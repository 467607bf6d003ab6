//! What owners are told that is not at the provider as they have it.

use super::*;
use crate::forge::told::*;

/// The notes of a pod that is made so, each as an event has it, with the reason before it.
fn of_guest(ctx: &GuestContext, change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut home = home_pod();
    change(&mut home);
    let context = HomeContext { domain: Some("cluster.local".into()), ..HomeContext::default() };
    let sent = export_pod(&home, &context);

    let guest = forge_pod(&id(), &sent, &content(&sent), ctx).unwrap();
    texts(changed_of_pod(&sent, &guest, &guest, ctx))
}

fn texts(notes: Vec<Note>) -> Vec<String> {
    let text = |note: Note| {
        assert_eq!(note.event().fit().unwrap().message, note.text(), "all of it can be told");
        format!("{} {}", note.reason, note.text())
    };
    notes.into_iter().map(text).collect()
}

#[track_caller]
fn one(notes: Vec<String>, parts: &[&str]) {
    let [note] = &notes[..] else { panic!("{notes:?}") };
    assert!(parts.iter().all(|part| note.contains(part)), "{note}");
}

#[test]
fn who_has_what_it_asks_for_is_told_nothing() {
    assert_eq!(of_guest(&guest_context(), |_| ()), [""; 0]);
}

#[test]
fn a_shorter_grace_is_told_with_what_to_buy() {
    let graced = |asked: u64| {
        of_guest(&guest_context(), |home| {
            home["spec"]["terminationGracePeriodSeconds"] = json!(asked);
        })
    };
    assert_eq!(graced(30), [""; 0]);
    let field = "GracePeriodShortened spec.terminationGracePeriodSeconds: is 30 here, not ";
    one(graced(31), &[field, "31", "; set it to 30", "reclaim>=31s"]);
    let endless = graced(315_360_000);
    assert!(endless[0].ends_with("set it to 30"), "nobody sells that: {endless:?}");
    let hook = of_guest(&guest_context(), |home| {
        let web = &mut home["spec"]["containers"][0];
        web["livenessProbe"] = json!({ "terminationGracePeriodSeconds": 30 });
        web["lifecycle"] = json!({ "preStop": { "sleep": { "seconds": 8 } } });
    });
    one(hook, &["GracePeriodShortened spec.containers[0].lifecycle.preStop.sleep.seconds: is 7"]);
}

#[test]
fn a_full_name_that_no_kernel_takes_is_told_with_its_length() {
    let named = |namespace: &str, whole: bool| {
        let ctx = GuestContext { namespaces: map([("shop", namespace)]), ..guest_context() };
        of_guest(&ctx, |home| {
            home["spec"]["hostname"] = json!("catalogue-of-goods-0");
            home["spec"]["subdomain"] = json!("catalogue");
            home["spec"]["setHostnameAsFQDN"] = json!(whole);
        })
    };
    // Twenty, nine, fifteen; and 20 for the points, `svc` and the domain.
    assert_eq!(named("shop-rome-12345", true), [""; 0]);
    one(
        named("shop-rome-123456", true),
        &[
            "HostnameTooLong spec.setHostnameAsFQDN: ",
            "catalogue-of-goods-0.catalogue.shop-rome-123456.svc.cluster.local",
            "65 characters",
            "mercato offload shop --name NAME",
        ],
    );
    assert_eq!(named("shop-rome-123456", false), [""; 0]);
}

#[test]
fn terms_and_constraints_that_do_not_count_are_told_by_their_number() {
    let term = |key: &str| json!({ "topologyKey": key, "labelSelector": {} });
    let asked = |terms: Vec<Value>| {
        of_guest(&guest_context(), |home| {
            let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": terms });
            home["spec"]["affinity"] = json!({ "podAntiAffinity": required });
        })
    };
    let host = "kubernetes.io/hostname";
    assert_eq!(asked(vec![term(host); 16]), [""; 0]);
    let said = ["LeftOut spec.affinity.podAntiAffinity: ", "3 of 19 terms", "topologyKey: "];
    one(asked(vec![term(host); 19]), &said);
    let mut chosen = term(host);
    chosen["namespaceSelector"] = json!({ "matchLabels": { "team": "a" } });
    one(asked(vec![chosen, term("rack")]), &["2 of 2 terms", "namespaceSelector"]);

    let spread = |key: &str| {
        of_guest(&guest_context(), |home| {
            let one = json!({ "topologyKey": key, "labelSelector": {}, "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule" });
            home["spec"]["topologySpreadConstraints"] = json!([one]);
        })
    };
    assert_eq!(spread(host), [""; 0]);
    one(spread("rack"), &["LeftOut spec.topologySpreadConstraints: 1 by rack"]);
}

#[test]
fn annotations_for_which_there_is_no_room_are_told() {
    let said = of_guest(&guest_context(), |home| {
        home["metadata"]["annotations"]["large"] = json!("x".repeat(250 << 10));
    });
    one(said, &["LeftOut metadata.annotations[large]: stays at home for lack of room, one of 1"]);
}

#[test]
fn names_are_told_of_where_there_are_any() {
    let said = |domain: &str, searches: usize, server: bool| {
        let name_server = server.then(|| [10, 207, 255, 254].into());
        let ctx = GuestContext { name_server, ..guest_context() };
        let searches: Vec<_> = (0..searches).map(|n| format!("n{n}.example")).collect();
        let home = json!({
            "metadata": { "namespace": "shop", "annotations": { "mercato.dev/cluster-domain": domain } },
            "spec": { "dnsConfig": { "searches": searches } },
        });
        texts(changed_of_pod(&home, &Value::Null, &Value::Null, &ctx))
    };
    one(said("com", 1, true), &["ClusterDomainRefused ", "com, is a single label"]);
    one(
        said("cluster.local", 30, true),
        &[
            "DNSConfigForming Search Line limits",
            "shop.svc.cluster.local svc.cluster.local",
            " n28",
        ],
    );
    assert_eq!(said("cluster.local", 29, true), [""; 0]);
    assert_eq!(said("com", 30, false), [""; 0]);
}

#[test]
fn a_token_that_was_asked_for_and_stays_is_told_and_the_automatic_one_is_not() {
    let with = |volume: &str, token: Value, tokens: &Tokens| {
        let sources = json!([{ "secret": { "name": "x" } }, { "serviceAccountToken": token }]);
        let volume = json!({ "name": volume, "projected": { "sources": sources } });
        texts(kept_of_pod(&json!({ "spec": { "volumes": [{}, volume] } }), tokens))
    };
    let vault = || Tokens::For(["vault".to_owned()].into());
    let field = "LeftOut spec.volumes[1].projected.sources[1].serviceAccountToken: stays at home";
    let api = with("api", json!({ "path": "token" }), &vault());
    one(api, &[field, "apiAccess: none", "; set spec.apiAccess: home in its NamespaceOffload"]);
    let other = with("sts", json!({ "path": "t", "audience": "sts" }), &vault());
    one(other, &[field, "sts is no audience", "kubernetes.tokenAudiences: [sts]"]);
    assert_eq!(with("v", json!({ "path": "t", "audience": "vault" }), &vault()), [""; 0]);
    assert_eq!(with("api", json!({ "path": "token" }), &Tokens::All), [""; 0]);
    assert_eq!(with("kube-api-access-x7", json!({ "path": "token" }), &vault()), [""; 0]);
}

#[test]
fn what_guests_do_not_have_of_a_service_is_told() {
    let of = |spec: Value, domain: Option<&str>| {
        let leaves = |namespace: &str| namespace == "shop";
        texts(kept_of_service(&json!({ "spec": spec }), domain, &leaves))
    };
    let alias = |name: &str| json!({ "type": "ExternalName", "externalName": name });
    let rows = [
        (json!({ "ports": [{ "port": 80 }], "type": "LoadBalancer" }), ""),
        (json!({ "ports": [{ "port": 80, "protocol": "SCTP" }] }), "spec.ports[0].protocol: "),
        (json!({ "externalIPs": ["192.0.2.1"] }), "spec.externalIPs: "),
        (json!({ "internalTrafficPolicy": "Local" }), "spec.internalTrafficPolicy: "),
        (json!({ "internalTrafficPolicy": "Cluster" }), ""),
        (alias("db.shop.svc.rome.example."), ""),
        (alias("db.example.com"), ""),
        (alias("db.bank.svc.rome.example"), "spec.externalName: "),
        (alias("not a domain"), "spec.externalName: "),
    ];
    for (spec, field) in rows {
        let said = of(spec.clone(), Some("rome.example"));
        match field {
            "" => assert_eq!(said, [""; 0], "{spec}"),
            field => one(said, &["LeftOut ", field, "; "]),
        }
    }
    let bank = "db.bank.svc.rome.example";
    one(of(alias(bank), Some("rome.example")), &["namespace bank", "; mercato offload bank"]);
    let system = "dns.kube-system.svc.rome.example";
    one(
        of(alias(system), Some("rome.example")),
        &["; name a Service of a namespace that may leave"],
    );
    assert_eq!(of(alias(bank), None), [""; 0], "guests are told no names of home");
}

#[test]
fn a_refusal_says_what_its_owner_does() {
    let refused = |change: fn(&mut Value)| {
        let mut home = home_pod();
        change(&mut home["spec"]);
        let sent = export_pod(&home, &HomeContext::default());

        let Err(refusal) = forge_pod(&id(), &sent, &content(&sent), &guest_context()) else {
            panic!("it is allowed");
        };
        texts(vec![Note::refused("OffloadRefused", refusal)])
    };
    one(
        refused(|spec| {
            spec["containers"][0]["securityContext"] =
                json!({ "capabilities": { "add": ["NET_ADMIN"] } });
        }),
        &[
            "OffloadRefused spec.containers[0].securityContext.capabilities: adds what is not in",
            "pod-security=privileged",
        ],
    );
    let said = refused(|spec| spec["hostNetwork"] = json!(true));
    one(said, &["spec.hostNetwork: would reach", "mercato.dev/provider DoesNotExist"]);

    let item = Item::Object(key(ObjectKind::Secret, "shop", "old"));
    for (kind, line) in [
        ("kubernetes.io/service-account-token", "spec.apiAccess: home"),
        ("bootstrap.kubernetes.io/token", "type Opaque"),
    ] {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "type": kind,
            "metadata": { "namespace": "shop", "name": "old" } });

        let refusal = forge_secret(&item, &secret, digest(&secret), &route(), &guest_context());
        let Err(refusal) = refusal else { panic!("{kind} leaves") };
        let said = texts(vec![Note::refused("OffloadRefused", refusal)]);
        one(said, &["OffloadRefused type: ", kind, "is a credential of the home cluster", line]);
    }
}
