//! What the Kubernetes project's end-to-end suite reports, held against the
//! outcomes that are expected.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

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

/// What differs from the baseline, a line each; a baseline has lines such as
/// `passed NAME`, and `failed NAME` under a comment that tells why.
///
/// # Errors
/// When the baseline has another line.
pub fn compare(outcomes: &[Outcome], baseline: &str) -> Result<Vec<String>> {
    let mut expected = BTreeMap::new();
    for line in baseline.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once(' ') {
            Some(("passed", spec)) => expected.insert(spec, true),
            Some(("failed", spec)) => expected.insert(spec, false),
            _ => bail!("the expectations: neither `passed NAME` nor `failed NAME`: {line}"),
        };
    }
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
    Ok(differing)
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

    fn differing(baseline: &str) -> Vec<String> {
        compare(&read(REPORT).unwrap(), baseline).unwrap()
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
        assert!(differing("passed Pods runs\n# slow here\nfailed Pods stops\n").is_empty());
    }

    #[test]
    fn whatever_differs_is_told() {
        assert_eq!(
            differing("failed Pods runs\npassed Pods stops\npassed Pods sleep"),
            [
                "passed Pods runs (expected to fail)",
                "failed Pods stops (failed: timed out)",
                "did not run: Pods sleep",
            ]
        );
        assert_eq!(differing("passed Pods stops").len(), 2);
        assert!(compare(&[], "perhaps Pods runs").is_err());
    }
}
