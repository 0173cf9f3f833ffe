//! Nothing that happens to the folder breaks a run.

use std::fs;
use std::thread;
use std::time::{Duration, SystemTime};

use super::*;
use crate::runtime::compile::CompileLog;

fn cubin(fill: u8, bytes: usize) -> Cubin {
    Cubin { bytes: vec![fill; bytes], log: CompileLog::new("Used 24 registers") }
}

fn key(name: &str) -> Key {
    Key::of(&[name, "sm_90a"])
}

/// A cache in a folder of its own that does not exist yet.
fn cache() -> (tempfile::TempDir, DiskCache, PathBuf) {
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().join("not/yet");
    (outside, DiskCache::at(&folder), folder)
}

fn names(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).unwrap().flatten();
    all.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn what_is_kept_is_found_again_and_only_by_its_key() {
    let (_outside, cache, folder) = cache();
    assert_eq!(cache.read(&key("a")), None, "no folder yet");
    cache.write(&key("a"), &cubin(1, 100)).unwrap();
    assert_eq!(cache.read(&key("a")), Some(cubin(1, 100)));
    assert_eq!(cache.read(&key("b")), None);
    assert_eq!(names(&folder), [key("a").file_name()]);
    assert!(is_kernel_name(&names(&folder)[0]));
}

#[test]
fn a_key_knows_its_parts_apart() {
    assert_ne!(Key::of(&["ab", "c"]), Key::of(&["a", "bc"]));
    assert_ne!(Key::of(&["a"]), Key::of(&["a", ""]));
}

#[test]
#[cfg(unix)]
fn folder_and_files_are_the_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_outside, cache, folder) = cache();
    cache.write(&key("a"), &cubin(1, 100)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join(key("a").file_name())), 0o600);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(cache.read(&key("a")), None, "others may write here");
    assert!(cache.write(&key("a"), &cubin(1, 100)).is_err());
}

#[test]
fn damaged_files_are_ignored_and_replaced() {
    let (_outside, cache, folder) = cache();
    cache.write(&key("a"), &cubin(1, 100)).unwrap();
    let path = folder.join(key("a").file_name());
    let good = fs::read(&path).unwrap();
    let damaged: [&[u8]; 4] = [b"", b"something else", &good[..good.len() - 1], &good[..40]];
    for bytes in damaged {
        fs::write(&path, bytes).unwrap();
        assert_eq!(cache.read(&key("a")), None);
        cache.write(&key("a"), &cubin(2, 100)).unwrap();
        assert_eq!(cache.read(&key("a")), Some(cubin(2, 100)));
    }
    // A file that is good, but of another kernel.
    fs::copy(&path, folder.join(key("b").file_name())).unwrap();
    assert_eq!(cache.read(&key("b")), None);
}

#[test]
#[cfg(unix)]
fn links_are_not_followed() {
    let (outside, cache, folder) = cache();
    cache.write(&key("a"), &cubin(1, 100)).unwrap();
    let path = folder.join(key("a").file_name());
    let elsewhere = outside.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert_eq!(cache.read(&key("a")), None);
    cache.write(&key("a"), &cubin(2, 100)).unwrap();
    assert_eq!(cache.read(&key("a")), Some(cubin(2, 100)));
    assert!(decode(key("a").0, &fs::read(&elsewhere).unwrap()).is_some(), "left alone");
}

#[test]
fn a_file_where_the_folder_should_be_is_an_error_value() {
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().join("file");
    fs::write(&path, "mine").unwrap();
    let cache = DiskCache::at(&path);
    assert_eq!(cache.read(&key("a")), None);
    assert!(cache.write(&key("a"), &cubin(1, 100)).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    let none = DiskCache::none();
    none.write(&key("a"), &cubin(1, 100)).unwrap();
    assert_eq!(none.read(&key("a")), None);
}

#[test]
fn a_folder_where_the_file_should_be_is_an_error_value() {
    let (_outside, cache, folder) = cache();
    fs::create_dir_all(folder.join(key("a").file_name()).join("inside")).unwrap();
    assert_eq!(cache.read(&key("a")), None);
    assert!(cache.write(&key("a"), &cubin(1, 100)).is_err());
    assert_eq!(names(&folder), [key("a").file_name()], "no part is left behind");
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_cannot_be_written_is_read_all_the_same() {
    use std::os::unix::fs::PermissionsExt;
    let (_outside, cache, folder) = cache();
    cache.write(&key("a"), &cubin(1, 100)).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    // The superuser may write anywhere; what counts is that neither way fails the reader.
    let written = cache.write(&key("b"), &cubin(2, 100));
    assert_eq!(cache.read(&key("a")), Some(cubin(1, 100)));
    assert_eq!(cache.read(&key("b")).is_some(), written.is_ok());
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    // Not even the superuser can make a folder here.
    let nowhere = DiskCache::at("/proc/no-such-folder");
    assert!(nowhere.write(&key("a"), &cubin(1, 100)).is_err());
    assert_eq!(nowhere.read(&key("a")), None);
}

#[test]
fn a_writer_that_died_leaves_nothing_that_is_read() {
    let (_outside, cache, folder) = cache();
    cache.write(&key("a"), &cubin(1, 100)).unwrap();
    let half = &encode(key("b").0, &cubin(2, 100))[..60];
    let (old, fresh) = (partial_name(&key("b").file_name()), partial_name(&key("c").file_name()));
    for name in [&old, &fresh] {
        fs::write(folder.join(name), half).unwrap();
        assert!(!is_kernel_name(name), "the command that clears the cache leaves it alone");
    }
    let long_ago = SystemTime::now() - ABANDONED * 2;
    File::options().write(true).open(folder.join(&old)).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(cache.read(&key("b")), None);
    cache.write(&key("b"), &cubin(3, 100)).unwrap();
    assert_eq!(cache.read(&key("b")), Some(cubin(3, 100)));
    let left = names(&folder);
    assert!(!left.contains(&old), "abandoned parts are removed");
    assert!(left.contains(&fresh), "another process may still be writing this one");
}

#[test]
fn many_writers_and_readers_never_see_a_part() {
    let (_outside, cache, folder) = cache();
    thread::scope(|scope| {
        for writer in 0..4u8 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..50 {
                    let size = 1000 + usize::from(writer) * 5000 + round;
                    cache.write(&key("a"), &cubin(writer, size)).unwrap();
                }
            });
        }
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let Some(found) = cache.read(&key("a")) else { continue };
                    assert!(found.bytes.iter().all(|byte| *byte == found.bytes[0]));
                }
            });
        }
    });
    assert!(cache.read(&key("a")).is_some());
    assert_eq!(names(&folder).len(), 1);
}

#[test]
fn what_was_not_used_for_longest_makes_room() {
    let (_outside, cache, folder) = cache();
    let cache = cache.with_limit(10_000);
    fs::create_dir_all(&folder).unwrap();
    #[cfg(unix)]
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(folder.join("notes.txt"), vec![0; 20_000]).unwrap();
    let age = |name: &str, hours: u64| {
        let file = File::options().write(true).open(folder.join(key(name).file_name())).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(hours)).unwrap();
    };
    for (name, hours) in [("a", 30), ("b", 20), ("c", 10)] {
        cache.write(&key(name), &cubin(1, 2500)).unwrap();
        age(name, hours);
    }
    // Reading is using.
    assert!(cache.read(&key("a")).is_some());
    cache.write(&key("d"), &cubin(1, 2500)).unwrap();
    let there = |name: &str| cache.read(&key(name)).is_some();
    assert_eq!([there("a"), there("b"), there("c"), there("d")], [true, false, true, true]);
    assert!(folder.join("notes.txt").exists(), "other files are neither counted nor removed");
}
