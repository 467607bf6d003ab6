//! The kubelet API of a virtual node, asked by others than the API server.

use anyhow::{Context as _, Result, ensure};
use kube::config::AuthInfo;
use kube::{Client, Config};
use mercato_kubelet::names;
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;

use crate::pods::NODE;

/// Asks the kubelet API itself for the node's pods: the status of the answer.
async fn ask(cluster: &Cluster, token: Option<&str>) -> Result<u16> {
    ask_for("/pods", cluster, token).await
}

/// The same for any path.
async fn ask_for(path: &str, cluster: &Cluster, token: Option<&str>) -> Result<u16> {
    let place = "jsonpath={.status.addresses[?(@.type==\"InternalIP\")].address}:\
        {.status.daemonEndpoints.kubeletEndpoint.Port}";
    let place = cluster.kubectl(&["get", "node", NODE, "-o", place]).await?.ok()?;
    let mut config = Config::new(format!("https://{place}").parse()?);
    config.accept_invalid_certs = true;
    config.auth_info =
        AuthInfo { token: token.map(|token| token.to_owned().into()), ..AuthInfo::default() };
    let request = http::Request::get(path).body(Vec::new())?;
    match Client::try_from(config)?.request_text(request).await {
        Ok(_) => Ok(200),
        Err(kube::Error::Api(status)) => Ok(status.code),
        Err(error) => Err(error).context("the kubelet API does not answer"),
    }
}

/// 401.
pub(crate) async fn without_a_name(home: &Daemon<'_>) -> Result<()> {
    for token in [None, Some("nobody")] {
        let code = ask(home.cluster, token).await?;
        ensure!(code == 401, "{token:?} is answered {code}");
    }
    Ok(())
}

/// The webhook answers whoever shows the API server's certificate, and nobody else.
pub(crate) async fn at_the_webhook(home: &Daemon<'_>) -> Result<()> {
    let place = "jsonpath={.webhooks[0].clientConfig.url}";
    let get = ["get", "mutatingwebhookconfiguration", names::WEBHOOK, "-o", place];
    let url = home.cluster.kubectl(&get).await?.ok()?;
    // Without the path, which is its API server's alone.
    let place = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    let file = |name: &str| home.cluster.data_outside().join(name).display().to_string();
    let shown = AuthInfo {
        client_certificate: Some(file("webhook-client.crt")),
        client_key: Some(file("webhook-client.key")),
        ..AuthInfo::default()
    };
    for (auth_info, answered) in [(shown, true), (AuthInfo::default(), false)] {
        let mut config = Config::new(place.parse()?);
        (config.accept_invalid_certs, config.auth_info) = (true, auth_info);
        let request = http::Request::get("/healthz").body(Vec::new())?;
        let answer = Client::try_from(config)?.request_text(request).await;
        ensure!(answer.is_ok() == answered, "{place}: {answer:?}, where {answered} is expected");
    }
    Ok(())
}

/// A right to read `nodes/proxy` reads, and runs nothing, however the path is written.
pub(crate) async fn with_a_right_to_read(home: &Daemon<'_>) -> Result<()> {
    let cluster = home.cluster;
    let role = ["create", "clusterrole", "reader", "--verb=get", "--resource=nodes/proxy"];
    cluster.kubectl(&role).await?.ok()?;
    let bind = ["create", "clusterrolebinding", "reader", "--clusterrole=reader"];
    let who = ["--serviceaccount=default:reader"];
    cluster.kubectl(&[&bind[..], &who].concat()).await?.ok()?;
    cluster.kubectl(&["create", "serviceaccount", "reader"]).await?.ok()?;
    let token = cluster.kubectl(&["create", "token", "reader"]).await?.ok()?;
    let rest = "lab/large/large?command=id&output=1";
    for (path, expected) in [
        ("/pods".to_owned(), 200),
        (format!("/exec/{rest}"), 403),
        (format!("//exec/{rest}"), 400),
        (format!("///attach/{rest}"), 400),
        (format!("/%2fexec/{rest}"), 400),
        (format!("/%65xec/{rest}"), 400),
        (format!("/Exec/{rest}"), 400),
        ("//portForward/lab/large".to_owned(), 400),
    ] {
        let code = ask_for(&path, cluster, Some(token.trim())).await?;
        ensure!(code == expected, "{path} is answered {code}");
        // The same by way of the API server, which asks with all rights.
        let raw = format!("/api/v1/nodes/{NODE}/proxy{path}");
        let own = "--as=system:serviceaccount:default:reader";
        let through = cluster.kubectl(&["get", "--raw", &raw, own]).await?;
        ensure!(path == "/pods" || through.code != Some(0), "{path}: {through:?}");
    }
    Ok(())
}

/// 403; with the right, the very same is answered.
pub(crate) async fn without_rights(home: &Daemon<'_>) -> Result<()> {
    let token = home.cluster.kubectl(&["create", "token", "default"]).await?.ok()?;
    let code = ask(home.cluster, Some(token.trim())).await?;
    ensure!(code == 403, "a stranger is answered {code}");
    let role = ["create", "clusterrole", "looker", "--verb=get", "--resource=nodes/pods"];
    home.cluster.kubectl(&role).await?.ok()?;
    let bind = ["create", "clusterrolebinding", "looker", "--clusterrole=looker"];
    let who = ["--serviceaccount=default:looker"];
    home.cluster.kubectl(&[&bind[..], &who].concat()).await?.ok()?;
    home.cluster.kubectl(&["create", "serviceaccount", "looker"]).await?.ok()?;
    let token = home.cluster.kubectl(&["create", "token", "looker"]).await?.ok()?;
    let code = ask(home.cluster, Some(token.trim())).await?;
    ensure!(code == 200, "who may look is answered {code}");
    Ok(())
}
