//! API servers that lie: home's, which gives a quantity in words that are none, and the provider's, which
//! drops a field of pods that it does not know, as clusters before 1.34 do.

use anyhow::{Context as _, Result, ensure};
use mercato_tests::fault_proxy::FaultProxy;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::{Value, json};

use crate::agreement;
use crate::churn::{apply, clean_up, pod};
use crate::pair::{PATIENCE, Pair, items};

/// Of neither anything is had.
pub(crate) async fn gain_nothing(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    let proxies = [FaultProxy::start(pair.rome()).await?, FaultProxy::start(pair.turin()).await?];
    let [home, provider] = &proxies;
    home.say(r#""nvidia.com/gpu":"0""#, r#""nvidia.com/gpu":"0k""#);
    provider.drop_of_pods("resources");
    pair.home.behind(Some(home)).await?;
    pair.provider.behind(Some(provider)).await?;
    let lied = async {
        asks_for_no_device(&pair).await.context("home's API server")?;
        bounds_nothing(&pair).await.context("the provider's API server")
    };
    let lied = lied.await;
    // Also if they got something: the tests that follow have no proxy.
    pair.home.behind(None).await?;
    pair.provider.behind(None).await?;
    lied?;
    for (name, proxy) in ["home", "the provider"].iter().zip(&proxies) {
        println!("the API server of {name} has lied {} times", proxy.lies());
        ensure!(proxy.lies() > 0, "the API server of {name} has not lied");
    }
    clean_up(&pair).await?;
    agreement::reached(&pair).await.context("afterwards").map(drop)
}

/// Whoever asks for no device has none, in whatever words.
async fn asks_for_no_device(pair: &Pair<'_>) -> Result<()> {
    let mut asks = pod("asks");
    asks["spec"]["containers"][0]["resources"] = json!({ "limits": { "nvidia.com/gpu": "0" } });
    apply(pair, &asks).await?;
    wait::until("its guest is there", PATIENCE, || async {
        let guests = items(&pair.guests(), "pods").await?;
        let guest = guests.iter().find(|guest| guest["metadata"]["name"] == "asks");
        let guest = guest.context("there is none")?;
        let container = &guest["spec"]["containers"][0];
        let variables = container["env"].as_array().context("variables")?;
        let hides = |one: &Value| one["name"] == "NVIDIA_VISIBLE_DEVICES" && one["value"] == "void";
        ensure!(variables.iter().any(hides), "its devices are not hidden: {container}");
        println!(
            "home's API server says 0k, and the guest is made with {}",
            container["resources"]
        );
        Ok(true)
    })
    .await
}

/// A guest without the bound that it was forged with is ended, and its owner is told of which.
async fn bounds_nothing(pair: &Pair<'_>) -> Result<()> {
    let mut whole = pod("whole");
    whole["spec"]["resources"] = json!({ "limits": { "memory": "64Mi" } });
    apply(pair, &whole).await?;
    wait::until("home is told that the bound is lost", PATIENCE, || async {
        let pods = items(&pair.shop(), "pods").await?;
        let there = pods.iter().find(|pod| pod["metadata"]["name"] == "whole");
        let events = items(&pair.shop(), "events").await?;
        let of = |event: &&Value| event["involvedObject"]["name"] == "whole";
        let said = events.iter().filter(of).map(|event| event["message"].to_string());
        let said: Vec<_> = said.chain(there.map(|pod| pod["status"].to_string())).collect();
        ensure!(said.iter().any(|one| one.contains("spec.resources")), "{said:?}");
        Ok(true)
    })
    .await?;
    wait::until("nothing of it runs", PATIENCE, || async {
        let guests = items(&pair.guests(), "pods").await?;
        let left: Vec<_> = guests
            .iter()
            .filter(|guest| guest["metadata"]["name"] == "whole")
            .filter(|guest| guest["metadata"]["deletionTimestamp"].is_null())
            .collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(true)
    })
    .await
}
