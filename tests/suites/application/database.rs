//! The database: members of etcd that call each other by name, and announce their addresses to clients.

use anyhow::{Context as _, Result, ensure};
use mercato_tests::wait;
use serde_json::Value;

use super::release::{PATIENCE, Release};

const MEMBERS: usize = 3;
const LIST: &str = "http://shop-db.shop:2379/v3/cluster/member/list";

/// What each member announces is its `status.podIP` at home, and clients there reach it by that.
pub(crate) async fn announces(release: &Release<'_>) -> Result<()> {
    let members = members(release).await?;
    for pod in release.pods_of("db").await? {
        let (name, address) = (&pod["metadata"]["name"], &pod["status"]["podIP"]);
        let member = members.iter().find(|member| member["name"] == *name);
        let member = member.with_context(|| format!("no member {name} in {members:?}"))?;
        let address = address.as_str().with_context(|| format!("{name} shows no address"))?;
        let announced = member["clientURLs"][0].as_str().context("it announces nothing")?;
        ensure!(announced == format!("http://{address}:2379"), "{name} announces {announced}");
        let health = release.caller.asks(&format!("{announced}/health")).await?;
        ensure!(health.contains("\"health\":\"true\""), "{name} says {health}");
    }
    Ok(())
}

/// A member is deleted: the others have what was written, and its successor is one of them.
pub(crate) async fn outlives_a_member(release: &Release<'_>) -> Result<()> {
    let id = |members: &[Value]| {
        let member = members.iter().find(|member| member["name"] == "shop-db-1");
        member.map(|member| member["ID"].clone())
    };
    let before = id(&members(release).await?);
    release.kubectl(&["delete", "pod", "shop-db-1", "--timeout=120s"]).await?;
    release.rolled_out("statefulset/shop-db").await?;
    wait::until("the member is another one", PATIENCE, || async {
        let now = members(release).await?;
        ensure!(id(&now).is_some() && id(&now) != before, "members are {now:?}");
        Ok(true)
    })
    .await?;
    release.has("again", "dish", "carbonara").await?;
    let url = "http://shop-db-1.shop-db-headless.shop:2379/health";
    wait::until("it is well", PATIENCE, || async {
        let health = release.caller.asks(url).await?;
        ensure!(health.contains("\"health\":\"true\""), "it says {health}");
        Ok(true)
    })
    .await
}

/// All of them, as the database itself lists them.
async fn members(release: &Release<'_>) -> Result<Vec<Value>> {
    let list: Value = serde_json::from_str(&release.caller.posts(LIST, "{}").await?)?;
    let members = list["members"].as_array().context("a list")?;
    ensure!(members.len() == MEMBERS, "members are {members:?}");
    Ok(members.clone())
}
