//! The kubelet API of a virtual node, asked by others than the API server.

use anyhow::{Context as _, Result, ensure};
use kube::config::AuthInfo;
use kube::{Client, Config};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;

use crate::pods::NODE;

/// Asks the kubelet API itself for the node's pods: the status of the answer.
async fn ask(cluster: &Cluster, token: Option<&str>) -> Result<u16> {
    let place = "jsonpath={.status.addresses[?(@.type==\"InternalIP\")].address}:\
        {.status.daemonEndpoints.kubeletEndpoint.Port}";
    let place = cluster.kubectl(&["get", "node", NODE, "-o", place]).await?.ok()?;
    let mut config = Config::new(format!("https://{place}").parse()?);
    config.accept_invalid_certs = true;
    config.auth_info =
        AuthInfo { token: token.map(|token| token.to_owned().into()), ..AuthInfo::default() };
    let request = http::Request::get("/pods").body(Vec::new())?;
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
