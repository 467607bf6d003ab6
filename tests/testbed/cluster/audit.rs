//! What was written to an API server, by its audit log.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

use super::Cluster;

/// A kind of write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Write {
    /// The program, by the first word of its user agent.
    pub by: String,
    /// `create`, `update`, `patch`, `delete`.
    pub verb: String,
    /// `pods`, `pods/status`, ...
    pub resource: String,
    /// It was done, not refused.
    pub ok: bool,
}

/// A place in an audit log.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

impl Cluster {
    /// The audit log's end.
    ///
    /// # Errors
    /// When there is none.
    pub fn audit_mark(&self) -> Result<Mark> {
        Ok(Mark(fs::metadata(self.audit_log()).context("the audit log")?.len()))
    }

    /// How often each kind of write was asked for since then.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn writes_since(&self, mark: Mark) -> Result<BTreeMap<Write, usize>> {
        let mut log = fs::File::open(self.audit_log()).context("the audit log")?;
        log.seek(SeekFrom::Start(mark.0))?;
        let mut writes = BTreeMap::new();
        for line in BufReader::new(log).lines() {
            // The last line may be half written.
            let Ok(event) = serde_json::from_str::<Event>(&line?) else { continue };
            if let Some(write) = event.write() {
                *writes.entry(write).or_default() += 1;
            }
        }
        Ok(writes)
    }

    fn audit_log(&self) -> std::path::PathBuf {
        self.data_outside().join("audit.log")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    #[serde(default)]
    user_agent: String,
    object_ref: Option<Object>,
    #[serde(default)]
    response_status: Value,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    resource: String,
    subresource: Option<String>,
}

impl Event {
    fn write(self) -> Option<Write> {
        let writes = matches!(&*self.verb, "create" | "update" | "patch" | "delete");
        let object = self.object_ref.filter(|_| writes && self.stage == "ResponseComplete")?;
        let at = object.subresource.map_or_else(String::new, |at| format!("/{at}"));
        Some(Write {
            by: self.user_agent.split(['/', ' ']).next().unwrap_or_default().to_owned(),
            verb: self.verb,
            resource: object.resource + &at,
            ok: self.response_status["code"].as_u64().is_some_and(|code| code < 400),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_told_from_a_read() {
        let event = |stage: &str, verb: &str| {
            let event = serde_json::json!({
                "stage": stage, "verb": verb, "userAgent": "kwok/v0.8 (linux)",
                "objectRef": { "resource": "pods", "subresource": "status" },
                "responseStatus": { "code": 409 } });
            serde_json::from_value::<Event>(event).unwrap().write()
        };
        let write = Write {
            by: "kwok".into(),
            verb: "patch".into(),
            resource: "pods/status".into(),
            ok: false,
        };
        assert_eq!(event("ResponseComplete", "patch"), Some(write));
        assert_eq!(event("ResponseComplete", "get"), None);
        assert_eq!(event("ResponseStarted", "patch"), None);
    }
}
