//! The page on shopping, word for word.

use anyhow::{Result, ensure};
use mercato_tests::page;
use mercato_tests::suite::Stage;

const PAGE: &str = include_str!("../../../docs/shopping.md");

pub(crate) async fn typed(_: &Stage) -> Result<()> {
    let [all, shown] = page::typed(PAGE, "shopping", env!("CARGO_BIN_EXE_lab")).await?;
    ensure!(all >= 12 && shown >= 5, "{all} commands, {shown} with output");
    Ok(())
}
