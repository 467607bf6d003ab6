//! What was acknowledged is there after any death, whole, and nothing else is.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{Batch, Disk, FORMAT, Store, StoreError, check};

/// Where the writer of [`killed_at_any_point`] writes.
const WRITER_DIR: &str = "MERCATO_TEST_STORE";
/// Records that each commit writes, all with its number.
const WIDTH: u8 = 20;

fn put(key: &str, value: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    (key.as_bytes().to_vec(), Some(value.to_vec()))
}

#[test]
fn records_are_written_replaced_and_deleted() {
    let dir = TempDir::new().unwrap();
    let mut store = Disk::open(dir.path()).unwrap();
    assert!(store.scan().unwrap().is_empty());
    assert_eq!(store.commit(&Batch::from([put("a", b"1"), put("b", b"2")])).unwrap(), 1);
    let change = Batch::from([put("b", b"3"), (b"a".to_vec(), None)]);
    assert_eq!(store.commit(&change).unwrap(), 2);
    assert_eq!(store.scan().unwrap().get(&b"a"[..]), None);
    assert_eq!(store.scan().unwrap()[&b"b"[..]], b"3");
    store.reopen().unwrap();
    assert_eq!(store.scan().unwrap().len(), 1);
    // Whether it can be written is tried, which is a commit of its own.
    assert_eq!(store.commit(&Batch::new()).unwrap(), 4);
}

/// The database below a store that was closed, whose lock is held for a moment longer.
fn database(path: &Path) -> sled::Db {
    for _ in 0..crate::limits::STORE_LOCK_LOOKS {
        if let Ok(database) = sled::open(path) {
            return database;
        }
        std::thread::sleep(crate::limits::STORE_LOCK_LOOK);
    }
    sled::open(path).unwrap()
}

/// The bytes of a record of that size, unlike at each place.
fn bytes(size: usize, salt: u8) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8 ^ salt).collect()
}

#[test]
fn large_records_are_kept_in_parts_which_come_and_go_with_them() {
    let dir = TempDir::new().unwrap();
    let mut store = Disk::open(dir.path()).unwrap();
    let part = crate::limits::PART_BYTES;
    let sizes = [0, 1, part - 3, part - 2, part, part + 1, 2 * part - 3, 2 * part - 2, 9 * part];
    // Each size after each other: larger ones leave nothing behind, and are left whole.
    for (n, before) in sizes.iter().enumerate() {
        for (m, after) in sizes.iter().enumerate() {
            let (n, m) = (n as u8, m as u8);
            store.commit(&Batch::from([put("a", &bytes(*before, n)), put("ab", b"1")])).unwrap();
            store.commit(&Batch::from([put("a", &bytes(*after, m))])).unwrap();
            let records = store.scan().unwrap();
            assert!(records[&b"a"[..]] == bytes(*after, m), "{before} then {after}");
            assert_eq!(records.len(), 2);
        }
    }
    // What begins like a record of several parts is not taken for one.
    store.commit(&Batch::from([put("a", &[0xff, 0, 9, 1]), put("b", &[0xff])])).unwrap();
    store.reopen().unwrap();
    assert_eq!(store.scan().unwrap()[&b"a"[..]], [0xff, 0, 9, 1]);
    assert_eq!(store.scan().unwrap()[&b"b"[..]], [0xff]);
    store.commit(&Batch::from([put("a", &bytes(9 * part, 1)), (b"b".to_vec(), None)])).unwrap();
    store.commit(&Batch::from([(b"a".to_vec(), None)])).unwrap();
    drop(store);
    let db = database(dir.path());
    assert_eq!(db.open_tree("records").unwrap().len(), 1, "\"ab\" alone");
    assert_eq!(db.open_tree("rest").unwrap().len(), 0, "no part is left");
}

#[test]
fn a_record_of_which_a_part_is_missing_cannot_be_read() {
    let dir = TempDir::new().unwrap();
    let large = bytes(2 * crate::limits::PART_BYTES, 0);
    Disk::open(dir.path()).unwrap().commit(&Batch::from([put("a", &large)])).unwrap();
    let db = database(dir.path());
    db.open_tree("rest").unwrap().clear().unwrap();
    db.flush().unwrap();
    drop(db);
    let error = Disk::open(dir.path()).unwrap().scan().unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
}

#[test]
fn others_records_are_not_taken_for_those_that_were_there() {
    let dir = TempDir::new().unwrap();
    let (path, away) = (dir.path().join("records"), dir.path().join("away"));
    let mut store = Disk::open(&path).unwrap();
    store.commit(&Batch::from([put("a", b"1")])).unwrap();
    std::fs::rename(&path, &away).unwrap();
    let refused = |store: &mut Disk| {
        let error = store.reopen().unwrap_err().to_string();
        assert!(error.contains("not the records"), "{error}");
        assert!(store.commit(&Batch::from([put("b", b"2")])).is_err());
    };
    refused(&mut store);
    assert!(!path.exists(), "nothing is made where they were");
    drop(Disk::open(&path).unwrap());
    refused(&mut store);
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::rename(&away, &path).unwrap();
    store.reopen().unwrap();
    assert_eq!(store.scan().unwrap().len(), 1);
}

#[test]
fn two_daemons_do_not_share_a_directory() {
    let dir = TempDir::new().unwrap();
    let _first = Disk::open(dir.path()).unwrap();
    assert!(matches!(Disk::open(dir.path()), Err(StoreError::InUse(_))));
}

#[test]
fn a_later_format_is_left_alone() {
    let dir = TempDir::new().unwrap();
    drop(Disk::open(dir.path()).unwrap());
    let db = database(dir.path());
    db.open_tree("meta").unwrap().insert("format", &9u64.to_be_bytes()).unwrap();
    db.flush().unwrap();
    drop(db);
    assert!(matches!(Disk::open(dir.path()), Err(StoreError::Format { found: 9, .. })));
}

#[test]
fn a_later_release_is_named_and_not_a_byte_is_changed() {
    let dir = TempDir::new().unwrap();
    let files = || -> std::collections::BTreeMap<_, _> {
        let entries = std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap);
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        files.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
    };
    drop(Disk::open(dir.path()).unwrap());
    let own = std::fs::read_to_string(dir.path().join("format")).unwrap();
    assert_eq!(own, format!("{FORMAT} {}\n", crate::limits::SOFTWARE));
    let later = FORMAT + 1;
    std::fs::write(dir.path().join("format"), format!("{later} mercato/9.1.0\n")).unwrap();
    // What a death left, which opening removes.
    std::fs::write(dir.path().join("snap.09.generating"), "half").unwrap();
    let before = files();
    for refused in [Disk::open(dir.path()).map(drop), check(dir.path())] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(&format!("of mercato/9.1.0, in format {later}")), "{error}");
    }
    assert!(files() == before);
    for (says, opens) in [
        ("1 mercato/0.0.1\n", true),
        ("3\n", true),
        ("4\n", true),
        ("5\n", true),
        ("6\n", true),
        ("7\n", true),
        ("", false),
        ("x 4", false),
    ] {
        std::fs::write(dir.path().join("format"), says).unwrap();
        assert_eq!(check(dir.path()).is_ok(), opens, "{says:?}");
        if opens {
            drop(Disk::open(dir.path()).unwrap());
            assert_eq!(std::fs::read_to_string(dir.path().join("format")).unwrap(), own);
        }
    }
}

#[test]
fn an_unfinished_snapshot_is_no_obstacle() {
    let dir = TempDir::new().unwrap();
    Disk::open(dir.path()).unwrap().commit(&Batch::from([put("a", b"1")])).unwrap();
    for (name, content) in [("snap.0000000000000009.generating", "half"), ("snap.0F", "")] {
        std::fs::write(dir.path().join(name), content).unwrap();
        assert_eq!(Disk::open(dir.path()).unwrap().scan().unwrap()[&b"a"[..]], b"1");
    }
}

#[test]
fn killed_at_any_point_what_was_acknowledged_is_there() {
    let dir = TempDir::new().unwrap();
    let mut acknowledged = 0;
    for kill in 0..20 {
        let mut writer = writer(dir.path());
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        // Kills fall at different points of the writer's life, the first within its start.
        for line in lines.map_while(Result::ok).filter_map(|line| line.parse::<u64>().ok()) {
            assert!(line > acknowledged);
            acknowledged = line;
            if line % 41 > kill * 2 {
                break;
            }
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        let store = Disk::open(dir.path()).unwrap();
        let records = store.scan().unwrap();
        let written: Vec<u64> = records
            .values()
            .map(|value| u64::from_be_bytes(value[..8].try_into().unwrap()))
            .collect();
        assert_eq!(written.len(), usize::from(WIDTH));
        assert!(written.iter().all(|n| *n == written[0]), "half a batch: {written:?}");
        assert!(written[0] >= acknowledged, "{} of {acknowledged}", written[0]);
        acknowledged = written[0];
    }
}

fn writer(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::tests::the_writer", "--ignored", "--nocapture"])
        .env(WRITER_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The program that is killed: says the number of each commit.
#[test]
#[ignore = "a part of the tests that kill it"]
fn the_writer() {
    let dir = std::env::var_os(WRITER_DIR).expect("set by those who start it");
    let mut store = Disk::open(Path::new(&dir)).unwrap();
    let mut number = store.commit(&Batch::new()).unwrap();
    loop {
        number += 1;
        let value = [&number.to_be_bytes()[..], &[0; 2_000]].concat();
        let batch = (0..WIDTH).map(|key| (vec![key], Some(value.clone()))).collect();
        println!("\n{}", store.commit(&batch).unwrap());
        std::io::stdout().flush().unwrap();
    }
}

/// The program whose disk is full.
#[test]
#[ignore = "a part of the test of a full disk"]
fn the_filler() {
    let dir = std::env::var_os(WRITER_DIR).expect("set by those who start it");
    let mut store = Disk::open(Path::new(&dir)).unwrap();
    let batch = |key: u32| Batch::from([(key.to_be_bytes().to_vec(), Some(vec![7; 2_000]))]);
    let error =
        (0..10_000).find_map(|key| store.commit(&batch(key)).err()).expect("8 MiB do not take 20");
    println!("\nerror: {error}");
    assert!(store.commit(&batch(0)).is_err(), "a failed store takes nothing");
    assert!(store.scan().is_err());
}

/// The program that starts again on that disk.
#[test]
#[ignore = "a part of the tests of a full and of a read-only disk"]
fn the_reader() {
    let dir = std::env::var_os(WRITER_DIR).expect("set by those who start it");
    let mut store = Disk::open(Path::new(&dir)).unwrap();
    println!("\nread: {}", store.scan().unwrap().len());
    let written = match store.failure() {
        Some(why) => Err(why),
        None => store.commit(&Batch::from([put("a", &[7; 2_000])])).map_err(|why| why.to_string()),
    };
    println!("written: {written:?}");
    assert!(written.is_err());
}

/// What these programs say on a disk of their own of 8 MiB, made read-only at times.
fn on_small_disk(steps: &[&str]) -> String {
    let dir = TempDir::new().unwrap();
    let exe = std::env::current_exe().unwrap();
    let mut script = "set -e; mount -t tmpfs -o size=8m none \"$0\"".to_owned();
    for step in steps {
        script += &match step.strip_prefix("the_") {
            Some(_) => {
                format!("; timeout 60 \"$1\" --exact store::tests::{step} --ignored --nocapture")
            }
            None => format!("; {step} \"$0\""),
        };
    }
    // A mount of its own, seen by nobody else; as any user, where the kernel lets them.
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .arg(dir.path())
        .arg(exe)
        .env(WRITER_DIR, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    said
}

#[test]
fn a_full_disk_is_an_error_and_its_records_are_read() {
    let said = on_small_disk(&["the_filler", "the_reader"]);
    let error = said.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.ends_with(": No space left on device (os error 28)"), "{said}");
    let read = said.lines().find_map(|line| line.strip_prefix("read: ")).unwrap();
    assert!(read.parse::<usize>().unwrap() > 100, "{said}");
}

#[test]
fn on_a_read_only_disk_records_are_read() {
    let said = on_small_disk(&["the_beginner", "mount -o remount,ro", "the_reader"]);
    assert!(said.contains("read: 1") && said.contains("Read-only"), "{said}");
}

/// The program that writes one record.
#[test]
#[ignore = "a part of the test of a read-only disk"]
fn the_beginner() {
    let dir = std::env::var_os(WRITER_DIR).expect("set by those who start it");
    Disk::open(Path::new(&dir)).unwrap().commit(&Batch::from([put("a", b"1")])).unwrap();
}
