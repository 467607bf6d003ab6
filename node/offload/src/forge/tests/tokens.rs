//! Service account tokens, by whom they are for.

use super::*;

#[test]
fn only_tokens_for_audiences_that_are_named_leave() {
    let audiences = [
        "",
        "https://kubernetes.default.svc",
        "k3s",
        "rke2",
        "system:konnectivity-server",
        "vault",
        "sts.example.com",
    ];
    let mut home = home_pod();
    let source =
        |audience: &&str| json!({ "serviceAccountToken": { "path": "t", "audience": audience } });
    let sources: Vec<Value> = audiences.iter().map(source).collect();
    home["spec"]["volumes"] = json!([{ "name": "t", "projected": { "sources": sources } }]);
    let leaving = |tokens: Tokens| {
        let asked = token_requests_of(&home, &tokens);
        let sent = export_pod(&home, &HomeContext { tokens, ..HomeContext::default() });
        assert_eq!(token_requests(&sent), asked, "home asks for what the provider names");
        asked.into_iter().map(|token| token.audience.unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(leaving(Tokens::default()), Vec::<String>::new());
    assert_eq!(leaving(Tokens::For(["vault".to_owned()].into())), ["vault"]);
    assert_eq!(leaving(Tokens::For([String::new()].into())), Vec::<String>::new());
    assert_eq!(leaving(Tokens::All), audiences);
}

#[test]
fn a_token_is_read_by_whom_a_kubelet_lets_read_it() {
    let mode = |of_pod: Value, of_containers: [Value; 2]| {
        let mut home = home_pod();
        home["spec"]["securityContext"] = of_pod;
        let [first, second] =
            of_containers.map(|it| json!({ "name": "x", "image": "y", "securityContext": it }));
        home["spec"]["initContainers"] = json!([first]);
        home["spec"]["containers"] = json!([second]);
        let token = json!({ "serviceAccountToken": { "path": "t", "audience": "vault" } });
        let volume = json!({ "defaultMode": 0o400, "sources": [token] });
        home["spec"]["volumes"] = json!([{ "name": "t", "projected": volume }]);
        let tokens = Tokens::For(["vault".to_owned()].into());
        let home = export_pod(&home, &HomeContext { tokens, ..HomeContext::default() });
        let guest = forged(&home).unwrap();
        let projected = &guest["spec"]["volumes"][0]["projected"];
        assert_eq!(projected["defaultMode"], 0o400);
        projected["sources"][0]["secret"]["items"][0]["mode"].as_u64()
    };
    let (none, user) = (|| json!({}), |uid: u32| json!({ "runAsUser": uid }));
    assert_eq!(mode(none(), [none(), none()]), None, "as the volume says");
    assert_eq!(mode(user(1_000), [none(), none()]), Some(0o444));
    assert_eq!(mode(none(), [user(1_000), user(1_000)]), Some(0o444));
    assert_eq!(
        mode(user(1_000), [user(2_000), none()]),
        None,
        "of two users a kubelet chooses none"
    );
    assert_eq!(mode(none(), [none(), user(1_000)]), None);
    assert_eq!(mode(json!({ "fsGroup": 3_000 }), [none(), none()]), Some(0o600));
    assert_eq!(
        mode(json!({ "fsGroup": 3_000, "runAsUser": 1_000 }), [none(), none()]),
        Some(0o600)
    );
}
