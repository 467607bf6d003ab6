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
