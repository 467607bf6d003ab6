//! What the Kubernetes project's end-to-end suite reports, held against the
//! outcomes that are expected.

mod api_access;
mod specs;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

pub use api_access::with_api_access;
pub use specs::{Group, as_expected, run};

/// One spec that ran.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its full name.
    pub spec: String,
    /// The first line of what it complained of.
    pub failure: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    spec_reports: Vec<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    leaf_node_type: String,
    leaf_node_text: String,
    container_hierarchy_texts: Option<Vec<String>>,
    state: String,
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    message: Option<String>,
}

/// The specs of a JSON report that ran, in the order of their names.
///
/// # Errors
/// When it is no such report.
pub fn read(json: &str) -> Result<Vec<Outcome>> {
    let suites: Vec<Suite> = serde_json::from_str(json).context("ginkgo's JSON report")?;
    let mut outcomes = Vec::new();
    for spec in suites.into_iter().flat_map(|suite| suite.spec_reports) {
        if spec.leaf_node_type != "It" || matches!(spec.state.as_str(), "skipped" | "pending") {
            continue;
        }
        let mut texts = spec.container_hierarchy_texts.unwrap_or_default();
        texts.push(spec.leaf_node_text);
        let failure = (spec.state != "passed").then(|| {
            let message = spec.failure.and_then(|failure| failure.message).unwrap_or_default();
            format!("{}: {}", spec.state, message.lines().next().unwrap_or_default())
        });
        outcomes.push(Outcome { spec: texts.join(" "), failure });
    }
    outcomes.sort_by(|a, b| a.spec.cmp(&b.spec));
    Ok(outcomes)
}

/// Where specs run, and so the column of a table of expected outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// On a kubelet of the bed.
    Plain,
    /// Through the virtual node of a contract.
    Virtual,
}

/// The specs of a table, and whether each is expected to pass in that column. A line is
/// `PLAIN VIRTUAL NAME`, where the first two are `passed` or `failed`; comments tell why.
///
/// # Errors
/// When the table has another line.
pub fn expected(table: &str, column: Column) -> Result<BTreeMap<&str, bool>> {
    let passed = |word| match word {
        "passed" => Ok(true),
        "failed" => Ok(false),
        other => bail!("neither passed nor failed: {other}"),
    };
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let (Some(plain), Some(virtually), Some(spec)) =
                (words.next(), words.next(), words.next())
            else {
                bail!("not a line of a table of outcomes: {line}");
            };
            let word = if column == Column::Plain { plain } else { virtually };
            Ok((spec, passed(word).with_context(|| format!("in the line {line}"))?))
        })
        .collect()
}

/// What differs from what is [`expected`], a line each.
#[must_use]
pub fn compare(outcomes: &[Outcome], mut expected: BTreeMap<&str, bool>) -> Vec<String> {
    let mut differing = Vec::new();
    for Outcome { spec, failure } in outcomes {
        match (expected.remove(spec.as_str()), failure) {
            (Some(true), None) | (Some(false), Some(_)) => {}
            (Some(true), Some(why)) => differing.push(format!("failed {spec} ({why})")),
            (Some(false), None) => differing.push(format!("passed {spec} (expected to fail)")),
            (None, None) => differing.push(format!("passed {spec} (unknown)")),
            (None, Some(why)) => differing.push(format!("failed {spec} (unknown; {why})")),
        }
    }
    differing.extend(expected.keys().map(|spec| format!("did not run: {spec}")));
    differing
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"[{"SpecReports": [
        {"LeafNodeType": "BeforeSuite", "LeafNodeText": "", "State": "passed"},
        {"LeafNodeType": "It", "LeafNodeText": "runs", "ContainerHierarchyTexts": ["Pods"],
         "State": "passed"},
        {"LeafNodeType": "It", "LeafNodeText": "stops", "ContainerHierarchyTexts": ["Pods"],
         "State": "failed", "Failure": {"Message": "timed out\nafter 5 m"}},
        {"LeafNodeType": "It", "LeafNodeText": "flies", "State": "skipped"}
    ]}]"#;

    fn differing(table: &str) -> Vec<String> {
        compare(&read(REPORT).unwrap(), expected(table, Column::Virtual).unwrap())
    }

    #[test]
    fn a_report_holds_what_ran() {
        let expected = [
            Outcome { spec: "Pods runs".into(), failure: None },
            Outcome { spec: "Pods stops".into(), failure: Some("failed: timed out".into()) },
        ];
        assert_eq!(read(REPORT).unwrap(), expected);
        assert!(read("{}").is_err());
    }

    #[test]
    fn as_expected_nothing_differs() {
        let table = "passed passed Pods runs\n# slow here\npassed failed Pods stops\n";
        assert!(differing(table).is_empty());
        let plain = expected(table, Column::Plain).unwrap();
        assert_eq!(compare(&read(REPORT).unwrap(), plain).len(), 1);
    }

    #[test]
    fn whatever_differs_is_told() {
        assert_eq!(
            differing(
                "passed failed Pods runs\nfailed passed Pods stops\npassed passed Pods sleep"
            ),
            [
                "passed Pods runs (expected to fail)",
                "failed Pods stops (failed: timed out)",
                "did not run: Pods sleep",
            ]
        );
        assert_eq!(differing("passed passed Pods stops").len(), 2);
        for broken in ["passed Pods", "perhaps passed Pods run", "passed perhaps Pods run"] {
            assert!(
                expected(broken, Column::Plain).is_err()
                    || expected(broken, Column::Virtual).is_err()
            );
        }
    }
}
