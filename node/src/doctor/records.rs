//! Where the records are: whether another node can have them once this one is gone. That is read off
//! the mounts of this machine, for which no rights in the cluster are needed.

use std::fs;
use std::path::Path;

use super::Finding;

const CHECK: &str = "records";
/// File systems that several machines may have at once.
const SHARED: [&str; 9] =
    ["9p", "afs", "ceph", "cifs", "glusterfs", "lustre", "nfs", "nfs4", "smb3"];

/// On which machine alone the records in this folder are.
pub(crate) fn records(dir: &Path) -> Finding {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    judged(name.trim(), place(&mounts, &dir))
}

/// What a folder is on.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    /// A file system of a network, of this type.
    Shared(&'a str),
    /// A folder of a file system of the machine, of this type.
    Folder(&'a str),
    /// A volume of its own, by its device.
    Volume(&'a str),
    /// No mount is known that it is on.
    Unknown,
}

fn judged(machine: &str, place: Place<'_>) -> Finding {
    match place {
        Place::Shared(kind) => {
            let what = format!("several nodes may have them at once, by {kind}");
            Finding::warn(CHECK, what)
                .todo("two daemons with one key are fraud to others: see that never two run")
        }
        Place::Folder(kind) => {
            Finding::ok(CHECK, format!("{machine} alone has them, in a folder of its own ({kind})"))
        }
        Place::Volume(device) => {
            let what = format!("they are on a volume of their own ({device}): another node has");
            Finding::ok(CHECK, format!("{what} them if it can be attached there"))
        }
        Place::Unknown => Finding::ok(CHECK, format!("{machine} has them; who else is not known")),
    }
}

/// By the mount that is nearest to the folder, as proc(5) has mounts.
fn place<'a>(mounts: &'a str, dir: &Path) -> Place<'a> {
    let mount = |line: &'a str| {
        let (at, what) = line.split_once(" - ")?;
        let mut at = at.split(' ').skip(3);
        let (root, point) = (at.next()?, at.next()?.replace("\\040", " "));
        let mut what = what.split(' ');
        Some((point, root, what.next()?, what.next()?))
    };
    let around = mounts.lines().filter_map(mount).filter(|(point, ..)| dir.starts_with(point));
    // Of two at one place the later one is seen.
    let Some((point, root, kind, device)) = around.max_by_key(|(point, ..)| point.len()) else {
        return Place::Unknown;
    };
    match (root, Path::new(&point) == dir) {
        _ if SHARED.contains(&kind) || kind.starts_with("fuse.") => Place::Shared(kind),
        ("/", true) => Place::Volume(device),
        _ => Place::Folder(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    const NODE: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 8:2 / /var/lib rw - xfs /dev/sda2 rw
";

    fn place_in(more: &str) -> String {
        let mounts = format!("{NODE}{more}\n");
        format!("{:?}", place(&mounts, Path::new("/var/lib/mercato")))
    }

    #[test]
    fn a_folder_is_what_the_nearest_mount_is() {
        for (mount, expected) in [
            ("", r#"Folder("xfs")"#),
            ("40 30 8:1 /opt/pvc-1 /var/lib/mercato rw - ext4 /dev/sda1 rw", r#"Folder("ext4")"#),
            ("40 30 8:16 / /var/lib/mercato rw - ext4 /dev/sdb rw", r#"Volume("/dev/sdb")"#),
            ("40 30 0:50 / /var/lib/mercato rw - nfs4 server:/a rw", r#"Shared("nfs4")"#),
            ("40 30 0:51 /x /var/lib/mercato rw - fuse.s3fs s3fs rw", r#"Shared("fuse.s3fs")"#),
            ("40 30 8:16 / /var/lib/mercato2 rw - ext4 /dev/sdb rw", r#"Folder("xfs")"#),
        ] {
            assert_eq!(place_in(mount), expected, "{mount}");
        }
        assert_eq!(place("", Path::new("/var/lib/mercato")), Place::Unknown);
        assert_eq!(place("no mount at all\n", Path::new("/")), Place::Unknown);
    }

    #[test]
    fn whoever_has_them_alone_is_named() {
        let folder = judged("rome-1", Place::Folder("ext4"));
        assert!(folder.verdict == Verdict::Ok && folder.what.starts_with("rome-1 alone has them"));
        assert_eq!(judged("rome-1", Place::Shared("nfs4")).verdict, Verdict::Warn);
        let dir = tempfile::tempdir().unwrap();
        assert!(!records(dir.path()).what.contains("not known"), "this machine has mounts");
    }
}
