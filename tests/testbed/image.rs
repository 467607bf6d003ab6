//! The container images of the bed, as one OCI archive made from the toolchain.
//!
//! busybox is Debian's static binary; agnhost is the Kubernetes project's test
//! server; pause and courier are ours. Each goes by a name of ours and by the names that the
//! end-to-end suite asks for, so that nothing is ever pulled. The daemon's own program has an
//! archive of its own, for the suites that ask for it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::courier;
use crate::dockerfile::{self, Dockerfile};
use crate::run;
use crate::toolchain::{Progress, Toolchain};

/// The registry part of our own images' names; it resolves nowhere.
pub const REGISTRY: &str = "mercato.test";
/// The sandbox image that the bed's containerd is told to use.
pub const PAUSE: &str = "mercato.test/pause:1";

/// The daemon's own program, as `mercato`, in an archive of its own.
pub const MERCATO: &str = "mercato.test/mercato:1";

/// The same program as of another build: a layer more, in the same archive.
pub const MERCATO_NEXT: &str = "mercato.test/mercato:2";

/// kubectl beside busybox, in an archive of its own.
pub const KUBECTL: &str = "mercato.test/kubectl:1";

/// etcd beside busybox, in an archive of its own.
pub const ETCD: &str = "mercato.test/etcd:1";

const BUSYBOX: &str = "/bin/busybox";
/// Of images that say nothing else.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Each with where it is in the image, and its Debian package. The shell is there since busybox's calls
/// its own `nc`, whatever else there is.
const NETWORK_PROGRAMS: [(&str, &str, &str); 5] = [
    ("curl", "bin/curl", "curl"),
    ("nc", "bin/nc", "netcat-openbsd"),
    ("dig", "usr/bin/dig", "bind9-dnsutils"),
    ("dash", "bin/sh", "dash"),
    ("getent", "usr/bin/getent", "libc-bin"),
];
const E2E: &str = "registry.k8s.io/e2e-test-images";

/// One image: its names, its layers (by index), and how it starts.
struct Image {
    names: Vec<String>,
    layers: &'static [usize],
    config: Value,
}

/// Where the archive of a toolchain lies.
#[must_use]
pub fn archive(toolchain: &Toolchain) -> PathBuf {
    toolchain.dir().join("images.tar")
}

/// Makes the archive, unless one of the same recipe is there.
///
/// # Errors
/// When busybox (package busybox-static) is missing or the disk is full.
pub fn build(toolchain: &Toolchain, progress: Progress) -> Result<()> {
    let busybox = fs::read(BUSYBOX)
        .with_context(|| format!("{BUSYBOX} (of Debian's package busybox-static)"))?;
    let beside = |end: &str| toolchain.dir().join(format!("images.{end}"));
    let made = once(beside, &[&busybox, courier::SOURCE.as_bytes()], |partial| {
        progress("making the container images");
        let courier = courier::compile(&toolchain.programs())?;
        let layers = [
            base(&busybox)?,
            layer(&[("pause", &fs::read(toolchain.dir().join("pause"))?)], &[], &[])?,
            agnhost(toolchain)?,
            layer(&[("courier", &fs::read(courier)?)], &[], &[])?,
        ];
        write_archive(File::create(partial)?, &layers, &images())
    });
    made.map(drop)
}

/// Makes the archive of [`MERCATO`] and [`MERCATO_NEXT`] out of this program, beside it, unless one of the same
/// program is there: without what debuggers read, and by the steps of `config/deploy/Dockerfile`; where it is.
///
/// # Errors
/// When `strip` or a step fails (packages binutils and libc-bin), or the disk is full.
pub fn of_program(program: &Path) -> Result<PathBuf> {
    let beside = |end: &str| program.with_extension(format!("image.{end}"));
    let bytes = fs::read(program).with_context(|| format!("read {}", program.display()))?;
    once(beside, &[dockerfile::TEXT.as_bytes(), &bytes], |partial| {
        let stripped = beside("stripped");
        let [from, to] = [program, &stripped].map(|path| path.to_string_lossy().into_owned());
        run("strip", &["-o", &to, &from])?;
        let (dockerfile, clone) = (Dockerfile::read(dockerfile::TEXT)?, tempfile::tempdir()?);
        let packed = dockerfile.pack(&stripped, clone.path())?;
        fs::remove_file(&stripped)?;
        let mut first = tar::Builder::new(Vec::new());
        first.append_dir_all("", packed)?;
        let image = |name: &str, layers| Image {
            names: vec![name.into()],
            layers,
            config: dockerfile.config.clone(),
        };
        let layers = [first.into_inner()?, layer(&[("build", b"2\n")], &[], &[])?];
        let images = [image(MERCATO, &[0]), image(MERCATO_NEXT, &[0, 1])];
        write_archive(File::create(partial)?, &layers, &images)
    })
}

/// Makes the archive of [`KUBECTL`] out of this program, which is linked with nothing, beside it, unless
/// one of the same program is there; where it is.
///
/// # Errors
/// When busybox (package busybox-static) is missing or the disk is full.
pub fn of_kubectl(program: &Path) -> Result<PathBuf> {
    of_part(program, "kubectl", KUBECTL, &["sleep", "36000"])
}

/// Makes the archive of [`ETCD`], likewise.
///
/// # Errors
/// As [`of_kubectl`].
pub fn of_etcd(program: &Path) -> Result<PathBuf> {
    of_part(program, "etcd", ETCD, &["etcd"])
}

/// An image of one of a cluster's programs, which runs this command.
fn of_part(program: &Path, part: &str, name: &str, command: &[&str]) -> Result<PathBuf> {
    // All programs of a cluster are one, which goes by the name that it is called by.
    let program = fs::canonicalize(program)?;
    let bytes = fs::read(&program).with_context(|| format!("read {}", program.display()))?;
    let busybox = fs::read(BUSYBOX)?;
    let beside = |end: &str| program.with_file_name(format!("{part}.image.{end}"));
    once(beside, &[&busybox, &bytes], |partial| {
        let path = format!("usr/bin/{part}");
        let layers = [base(&busybox)?, layer(&[(&path, &bytes)], &[], &[])?];
        let image =
            Image { names: vec![name.into()], layers: &[0, 1], config: json!({ "Cmd": command }) };
        write_archive(File::create(partial)?, &layers, &[image])
    })
}

/// Makes an archive of these, unless one is there; where it is. All its files lie `beside` something.
fn once(
    beside: impl Fn(&str) -> PathBuf,
    of: &[&[u8]],
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let (whole, partial, stamp) = (beside("tar"), beside("partial"), beside("recipe"));
    let lock = File::create(beside("lock"))?;
    lock.lock().with_context(|| format!("lock {}", whole.display()))?;
    let mut recipe = Sha256::new();
    recipe.update(include_bytes!("image.rs"));
    of.iter().for_each(|part| recipe.update(part));
    let recipe = hex::encode(recipe.finalize());
    if whole.exists() && fs::read_to_string(&stamp).is_ok_and(|made| made == recipe) {
        return Ok(whole);
    }
    make(&partial)?;
    fs::rename(&partial, &whole)?;
    fs::write(&stamp, recipe)?;
    Ok(whole)
}

/// Makes an archive of agnhost with what specs of the network call: programs of Debian, with the libraries
/// that they are linked with; where it is.
///
/// # Errors
/// When one of them is missing (packages curl, netcat-openbsd and bind9-dnsutils), or the disk is full.
pub fn with_network_programs(toolchain: &Toolchain) -> Result<PathBuf> {
    let mut files = BTreeMap::new();
    for (program, there, package) in NETWORK_PROGRAMS {
        let path = Path::new("/usr/bin").join(program);
        let missing = || format!("{} (of Debian's package {package})", path.display());
        files.insert(there.to_owned(), fs::read(&path).with_context(missing)?);
        for library in libraries(&path.to_string_lossy())? {
            let bytes = fs::read(&library).with_context(|| format!("read {library}"))?;
            files.insert(library.trim_start_matches('/').to_owned(), bytes);
        }
    }
    let files: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    let busybox = fs::read(BUSYBOX)?;
    let layers = [base(&busybox)?, agnhost(toolchain)?, layer(&files, &[], &[])?];
    let mut image = Image { layers: &[0, 1, 2], ..agnhost_image() };
    image.names.push(format!("{E2E}/jessie-dnsutils:1.7"));
    let (whole, partial) =
        (toolchain.dir().join("network.tar"), toolchain.dir().join("network.partial"));
    write_archive(File::create(&partial)?, &layers, &[image])?;
    fs::rename(&partial, &whole)?;
    Ok(whole)
}

/// The paths of what a program is linked with, the loader among them.
fn libraries(program: &str) -> Result<Vec<String>> {
    let linked = run("ldd", &[program])?;
    ensure!(!linked.contains("not found"), "a library of {program} is missing: {linked}");
    let words = linked.lines().filter_map(|line| {
        let path = line.split_whitespace().find(|word| word.starts_with('/'));
        path.map(str::to_owned)
    });
    Ok(words.collect())
}

fn images() -> [Image; 6] {
    let ours = |name: &str| format!("{REGISTRY}/{name}:1");
    let e2e = |name: &str| format!("{E2E}/{name}");
    [
        Image {
            names: vec![PAUSE.into(), "registry.k8s.io/pause:3.10.1".into()],
            layers: &[1],
            config: json!({"Entrypoint": ["/pause"]}),
        },
        Image {
            names: vec![ours("busybox"), e2e("busybox:1.37.0-1"), e2e("busybox:1.36.1-1")],
            layers: &[0],
            config: json!({"Cmd": ["sh"]}),
        },
        agnhost_image(),
        Image {
            names: vec![courier::IMAGE.into()],
            layers: &[0, 3],
            config: json!({"Entrypoint": ["/courier"], "Cmd": ["serve", courier::PORT.to_string()]}),
        },
        Image {
            names: vec![ours("nginx"), e2e("nginx:1.15-4"), e2e("nginx:1.14-4")],
            layers: &[0],
            config: json!({"Cmd": ["httpd", "-f", "-p", "80", "-h", "/usr/share/nginx/html"]}),
        },
        Image {
            names: vec![e2e("nonroot:1.4")],
            layers: &[0],
            config: json!({"Entrypoint": ["sh", "-c", "id -u; sleep 3600"], "User": "1234"}),
        },
    ]
}

fn agnhost_image() -> Image {
    let e2e = |name: &str| format!("{E2E}/{name}");
    Image {
        names: vec![format!("{REGISTRY}/agnhost:1"), e2e("agnhost:2.59"), e2e("agnhost:2.55")],
        layers: &[0, 2],
        config: json!({"Entrypoint": ["/agnhost"], "Cmd": ["pause"]}),
    }
}

fn base(busybox: &[u8]) -> Result<Vec<u8>> {
    let applets = run(BUSYBOX, &["--list"])?;
    let links: Vec<_> = applets
        .lines()
        .filter(|applet| *applet != "busybox")
        .map(|applet| format!("bin/{applet}"))
        .chain(["usr/bin/env".to_owned()])
        .map(|link| (link, BUSYBOX))
        .collect();
    let dirs = [
        "bin",
        "dev",
        "etc",
        "home",
        "proc",
        "root",
        "sys",
        "tmp",
        "usr",
        "usr/bin",
        "usr/share",
        "usr/share/nginx",
        "usr/share/nginx/html",
        "var",
        "var/run",
        "var/tmp",
    ];
    let passwd = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";
    let files: [(&str, &[u8]); 4] = [
        ("bin/busybox", busybox),
        ("etc/passwd", passwd),
        ("etc/group", b"root:x:0:\n"),
        ("usr/share/nginx/html/index.html", b"Welcome to nginx!\n"),
    ];
    layer(&files, &links, &dirs)
}

/// agnhost, with the certificate for `localhost` and the `curl` that specs of lifecycle hooks expect:
/// given a URL alone, busybox's wget does the same.
fn agnhost(toolchain: &Toolchain) -> Result<Vec<u8>> {
    let localhost = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (certificate, key) = (localhost.cert.pem(), localhost.signing_key.serialize_pem());
    let files: [(&str, &[u8]); 4] = [
        ("bin/curl", b"#!/bin/sh\nexec wget -q -O - \"$@\"\n"),
        ("agnhost", &fs::read(toolchain.dir().join("agnhost"))?),
        ("localhost.crt", certificate.as_bytes()),
        ("localhost.key", key.as_bytes()),
    ];
    // The specs of commands call it by a second name.
    layer(&files, &[("agnhost-2".to_owned(), "agnhost")], &[])
}

fn layer(files: &[(&str, &[u8])], links: &[(String, &str)], dirs: &[&str]) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    let header = |kind, mode, size: usize| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size as u64);
        header
    };
    for dir in dirs {
        let mode = if dir.ends_with("tmp") { 0o1777 } else { 0o755 };
        let mut header = header(tar::EntryType::Directory, mode, 0);
        tar.append_data(&mut header, dir, &[][..])?;
    }
    for (name, bytes) in files {
        let mut header = header(tar::EntryType::Regular, 0o755, bytes.len());
        tar.append_data(&mut header, name, *bytes)?;
    }
    for (link, target) in links {
        let mut header = header(tar::EntryType::Symlink, 0o777, 0);
        tar.append_link(&mut header, link, target)?;
    }
    Ok(tar.into_inner()?)
}

/// Writes the images in the layout of the OCI image specification.
fn write_archive(to: impl Write, layers: &[Vec<u8>], images: &[Image]) -> Result<()> {
    let mut tar = tar::Builder::new(to);
    let mut put = |path: &Path, bytes: &[u8]| -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        Ok(tar.append_data(&mut header, path, bytes)?)
    };
    let digest = |bytes: &[u8]| hex::encode(Sha256::digest(bytes));
    let blob = |digest: &str| Path::new("blobs/sha256").join(digest);
    let descriptor = |kind: &str, bytes: &[u8]| {
        json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": format!("sha256:{}", digest(bytes)),
            "size": bytes.len(),
        })
    };

    for layer in layers {
        put(&blob(&digest(layer)), layer)?;
    }
    let mut manifests = Vec::new();
    for image in images {
        let mine: Vec<_> = image.layers.iter().map(|&index| &layers[index]).collect();
        let mut run = image.config.clone();
        if run["Env"].is_null() {
            run["Env"] = json!([PATH]);
        }
        let diffs: Vec<_> = mine.iter().map(|l| format!("sha256:{}", digest(l))).collect();
        let config = serde_json::to_vec(&json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": run,
            "rootfs": {"type": "layers", "diff_ids": diffs},
        }))?;
        let manifest = serde_json::to_vec(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("config.v1+json", &config),
            "layers": mine.iter().map(|l| descriptor("layer.v1.tar", l)).collect::<Vec<_>>(),
        }))?;
        put(&blob(&digest(&config)), &config)?;
        put(&blob(&digest(&manifest)), &manifest)?;
        for name in &image.names {
            let mut entry = descriptor("manifest.v1+json", &manifest);
            entry["annotations"] = json!({
                "io.containerd.image.name": name,
                "org.opencontainers.image.ref.name": name,
            });
            manifests.push(entry);
        }
    }
    put(
        Path::new("index.json"),
        &serde_json::to_vec(&json!({"schemaVersion": 2, "manifests": manifests}))?,
    )?;
    put(Path::new("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    tar.finish()?;
    Ok(())
}
