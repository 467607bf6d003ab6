//! The toolchain: every program and image of a cluster, built once into a cache.
//!
//! The programs come from the Go module `kubernetes/` beside this folder, the
//! images from those programs and Debian's busybox. The cache lies outside the
//! repository (`$MERCATO_LAB_CACHE`, or `mercato-lab` in the user's cache folder)
//! under a key made of the module's own files, so a changed module builds anew
//! and an unchanged one costs nothing.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::{image, requirements};

/// The Kubernetes version of the Go module.
pub const KUBERNETES_VERSION: &str = "1.35.4";

/// The programs in the one executable `kubernetes`.
const PROGRAMS: [&str; 8] = [
    "coredns",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
];

/// Programs with a module of their own below `kubernetes/`, of the same name.
const OTHERS: [(&str, &str); 2] = [
    ("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    ("metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server"),
];

/// Helm, which no cluster is made of: what it is built of changes nothing of the rest.
const HELM: &str = "helm.sh/helm/v3/cmd/helm";

/// kwok's own files that make nodes ready, keep their leases, and run pods at once.
const KWOK_STAGES: [&str; 5] = [
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
];

/// What a build prints progress through; it is given one line at a time.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// A built toolchain.
#[derive(Clone, Debug)]
pub struct Toolchain {
    dir: PathBuf,
}

impl Toolchain {
    /// Builds what is missing; some twelve minutes on two cores the first time. What else a bed needs is
    /// looked for before that.
    ///
    /// # Errors
    /// When Go or a package is missing, or a build fails, with its output.
    pub fn build(progress: Progress) -> Result<Self> {
        requirements::programs()?;
        let dir = cache()?.join(key_of(&["", "kwok", "metrics-server", "pause"])?);
        fs::create_dir_all(dir.join("bin"))
            .with_context(|| format!("make the cache {}", dir.display()))?;
        let lock = File::create(dir.join("lock"))?;
        lock.lock().context("lock the cache")?;
        let toolchain = Self { dir };

        let name = |variable: &str, value: &str| format!("-X {variable}={value}");
        let (major, minor) = ("1", "35");
        let version = [
            name("k8s.io/component-base/version.gitVersion", &format!("v{KUBERNETES_VERSION}")),
            name("k8s.io/component-base/version.gitMajor", major),
            name("k8s.io/component-base/version.gitMinor", minor),
            name("k8s.io/client-go/pkg/version.gitVersion", &format!("v{KUBERNETES_VERSION}")),
        ];
        let agnhost = "k8s.io/kubernetes/test/images/agnhost";
        toolchain.go("kubernetes", ".", &["build", "."], &version.join(" "), progress)?;
        toolchain.go("agnhost", ".", &["build", agnhost], "", progress)?;
        toolchain.go("pause", ".", &["build", "./pause"], "", progress)?;
        // In modules of their own: they take other versions of the libraries.
        for (name, package) in OTHERS {
            toolchain.go(&format!("bin/{name}"), name, &["build", package], "", progress)?;
        }
        let helm = format!("helm-{}", key_of(&["helm"])?);
        // What it says of clusters that it does not ask.
        let version = ["k8sVersionMajor=1", "k8sVersionMinor=35"]
            .map(|value| format!("-X helm.sh/helm/v3/pkg/chartutil.{value}"));
        toolchain.go(&helm, "helm", &["build", HELM], &version.join(" "), progress)?;
        toolchain.link("helm", &helm)?;
        let plugin = format!("deviceplugin-{}", key_of(&["deviceplugin"])?);
        toolchain.go(&plugin, ".", &["build", "./deviceplugin"], "", progress)?;
        toolchain.link("deviceplugin", &plugin)?;
        toolchain.stages()?;
        for program in PROGRAMS {
            toolchain.link(program, "kubernetes")?;
        }
        image::build(&toolchain, progress)?;
        Ok(toolchain)
    }

    /// Builds the Kubernetes project's end-to-end suite as well, and ginkgo, which runs
    /// several of its specs at a time; some two minutes.
    ///
    /// # Errors
    /// As [`Toolchain::build`].
    pub fn build_e2e(&self, progress: Progress) -> Result<PathBuf> {
        let lock = File::create(self.dir.join("lock"))?;
        lock.lock().context("lock the cache")?;
        let ginkgo = "github.com/onsi/ginkgo/v2/ginkgo";
        self.go("bin/ginkgo", ".", &["build", ginkgo], "", progress)?;
        self.go(
            "e2e.test",
            ".",
            &["test", "-c", "-vet=off", "k8s.io/kubernetes/test/e2e"],
            "",
            progress,
        )?;
        Ok(self.dir.join("e2e.test"))
    }

    /// The path of a program; from `$KUBEBUILDER_ASSETS` where that has it.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        let given = env::var_os("KUBEBUILDER_ASSETS").map(|dir| Path::new(&dir).join(name));
        given.filter(|path| path.exists()).unwrap_or_else(|| self.programs().join(name))
    }

    /// The folder of the programs, for a search path.
    #[must_use]
    pub fn programs(&self) -> PathBuf {
        self.dir.join("bin")
    }

    /// The toolchain's own folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How kwok's nodes and pods behave: the files that come with it, in one.
    #[must_use]
    pub fn kwok_stages(&self) -> PathBuf {
        self.dir.join("kwok-stages.yaml")
    }

    /// Calls what is in the toolchain's folder by the name of a program.
    fn link(&self, program: &str, target: &str) -> Result<()> {
        let (link, target) = (self.dir.join("bin").join(program), Path::new("..").join(target));
        if fs::read_link(&link).is_ok_and(|old| old == target) {
            return Ok(());
        }
        let fresh = self.dir.join(format!("{program}.link"));
        // Of a build that was interrupted.
        let _ = fs::remove_file(&fresh);
        std::os::unix::fs::symlink(target, &fresh)?;
        Ok(fs::rename(fresh, link)?)
    }

    fn stages(&self) -> Result<()> {
        if self.kwok_stages().exists() {
            return Ok(());
        }
        let found = Command::new("go")
            .args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"])
            .current_dir(modules().join("kwok"))
            .output()?;
        let module = PathBuf::from(String::from_utf8(found.stdout)?.trim()).join("kustomize/stage");
        let mut stages = String::new();
        for file in KWOK_STAGES {
            let text = fs::read_to_string(module.join(file))
                .with_context(|| format!("{file} of kwok's module"))?;
            stages += &format!("---\n{text}");
        }
        Ok(fs::write(self.kwok_stages(), stages)?)
    }

    /// Runs `go`, unless `output` is there already; what is there is whole.
    fn go(
        &self,
        output: &str,
        module: &str,
        args: &[&str],
        ldflags: &str,
        progress: Progress,
    ) -> Result<()> {
        let whole = self.dir.join(output);
        if whole.exists() {
            return Ok(());
        }
        let started = Instant::now();
        progress(&format!("building {output} from Go modules; this happens once"));
        let partial = self.dir.join(format!("{output}.partial"));
        let (verb, rest) = args.split_at(args.len() - 1);
        let mut go = Command::new("go")
            .args(verb)
            .args(["-v", "-trimpath", "-ldflags", &format!("-s -w {ldflags}"), "-o"])
            .arg(&partial)
            .args(rest)
            .current_dir(modules().join(module))
            .env("CGO_ENABLED", "0")
            .stderr(Stdio::piped())
            .spawn()
            .context("start go, which must be installed and on the path")?;
        let said = follow(&mut go, output, started, progress)?;
        ensure!(go.wait()?.success(), "go could not build {output}:\n{said}");
        fs::rename(&partial, &whole)?;
        progress(&format!("built {output} in {} s", started.elapsed().as_secs()));
        Ok(())
    }
}

/// Counts the packages that `go -v` names; returns its last other lines.
fn follow(
    go: &mut std::process::Child,
    output: &str,
    started: Instant,
    progress: Progress,
) -> Result<String> {
    let (mut packages, mut told, mut said) = (0, 0, Vec::new());
    for line in BufReader::new(go.stderr.take().context("piped above")?).lines() {
        let line = line?;
        if line.contains(' ') {
            said.push(line);
            said.drain(..said.len().saturating_sub(40));
            continue;
        }
        packages += 1;
        let seconds = started.elapsed().as_secs();
        if seconds >= told + 15 {
            told = seconds;
            progress(&format!("building {output}: {packages} packages in {seconds} s"));
        }
    }
    Ok(said.join("\n"))
}

fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes")
}

fn cache() -> Result<PathBuf> {
    if let Some(dir) = env::var_os("MERCATO_LAB_CACHE") {
        return Ok(dir.into());
    }
    if let Some(dir) = env::var_os("XDG_CACHE_HOME") {
        return Ok(Path::new(&dir).join("mercato-lab"));
    }
    match env::var_os("HOME") {
        Some(home) => Ok(Path::new(&home).join(".cache/mercato-lab")),
        None => bail!("no place for the cache: set MERCATO_LAB_CACHE, XDG_CACHE_HOME or HOME"),
    }
}

/// A name for the state of modules: a hash over the files that decide what is built.
fn key_of(folders: &[&str]) -> Result<String> {
    let mut files = Vec::new();
    for dir in folders.iter().map(|folder| modules().join(folder)) {
        for entry in fs::read_dir(&dir).with_context(|| format!("read {}", dir.display()))? {
            let path = entry?.path();
            let decides = |end| matches!(end, "go" | "mod" | "sum");
            if path.extension().and_then(|e| e.to_str()).is_some_and(decides) {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        hash.update(fs::read(&file)?);
    }
    Ok(hex::encode(&hash.finalize()[..8]))
}
