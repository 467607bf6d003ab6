//! Everything that explains a failure, copied out of the bed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Cluster;

/// What kubectl is asked for, and the file that takes the answer.
const QUESTIONS: [(&str, &[&str]); 4] = [
    ("objects.txt", &["get", "all,nodes,leases,csr", "-A", "-o", "wide"]),
    ("pods.yaml", &["get", "pods,nodes", "-A", "-o", "yaml"]),
    ("programs-on-nodes.txt", &PROGRAMS),
    ("events.txt", &["get", "events", "-A", "--sort-by=.metadata.creationTimestamp"]),
];
/// The logs of Mercato's own programs on nodes, also where some have none.
const PROGRAMS: [&str; 7] = [
    "logs",
    "--namespace=mercato-nodes",
    "--selector=app.kubernetes.io/name=mercato-node",
    "--all-containers",
    "--prefix",
    "--tail=-1",
    "--ignore-errors",
];

impl Cluster {
    /// Writes logs, objects and events to a folder of the cluster's name in `to`.
    ///
    /// # Errors
    /// When the folder cannot be written. What the cluster cannot tell any more is
    /// said in the file that would have held it.
    pub async fn dump(&self, to: &Path) -> Result<()> {
        let dir = to.join(self.name());
        fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
        for entry in fs::read_dir(self.data_outside().join("logs")).into_iter().flatten() {
            let entry = entry?;
            let mut name = entry.file_name();
            name.push(".log");
            fs::copy(entry.path(), dir.join(name))?;
        }
        fs::copy(self.data_outside().join("audit.log"), dir.join("audit.log"))?;
        for (file, question) in QUESTIONS {
            let timeout = ["--request-timeout=5s"];
            let args: Vec<_> = question.iter().chain(&timeout).copied().collect();
            let answer = match self.kubectl(&args).await {
                Ok(answer) => answer.stdout + &answer.stderr,
                Err(error) => format!("{error:#}\n"),
            };
            fs::write(dir.join(file), answer)?;
        }
        Ok(())
    }
}
