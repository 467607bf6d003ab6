//! The page on bursts, word for word.

use anyhow::{Result, ensure};
use mercato_tests::page;
use mercato_tests::suite::Stage;

const PAGE: &str = include_str!("../../../docs/bursts.md");

pub(crate) async fn typed(_: &Stage) -> Result<()> {
    let [all, shown] = page::typed(PAGE, "bursts", env!("CARGO_BIN_EXE_lab")).await?;
    ensure!(all >= 14 && shown >= 6, "{all} commands, {shown} with output");
    Ok(())
}
