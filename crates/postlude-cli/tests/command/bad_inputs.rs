//! Bad files and bad command lines: exit code 2, a message with the place and, where there is one, the fix; no panic.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::checkpoints::{floats, npy, npz, safetensors};
use super::{Ended, command, postlude_in};

/// A file by its name and bytes, and words of the error message.
type BadFile = (&'static str, Vec<u8>, &'static str);

/// A safetensors file with this header and this many bytes behind it.
fn with_header(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// An entry of a header.
fn entry(dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#""A":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
}

fn bad_arrays() -> Vec<BadFile> {
    let good = npy("<f4", "(2, 3)", &floats(&[1.0; 6]));
    let header = |text: &str| {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.bytes());
        bytes
    };
    let mut wrong_magic = good.clone();
    wrong_magic[1] = b'n';
    let mut version = good.clone();
    version[6] = 4;
    let mut swapped = good.clone();
    swapped.swap(8, 9);
    let mut long = b"\x93NUMPY\x02\x00".to_vec();
    long.extend(u32::MAX.to_le_bytes());
    vec![
        ("empty.npy", Vec::new(), "shorter than a header"),
        ("magic.npy", wrong_magic, "NumPy's mark"),
        ("version.npy", version, "version 4"),
        ("short.npy", good[..5].to_vec(), "shorter than a header"),
        ("cut_length.npy", good[..9].to_vec(), "inside the header"),
        ("cut_header.npy", good[..30].to_vec(), "inside the header"),
        ("cut_data.npy", good[..good.len() - 1].to_vec(), "bytes instead of"),
        ("more_data.npy", [&good[..], &[0]].concat(), "bytes instead of"),
        ("swapped.npy", swapped, "header"),
        ("long.npy", long, "the header is too long"),
        ("text.npy", b"hello, world: not an array".to_vec(), "NumPy's mark"),
        (
            "ones.npy",
            npy("<f4", &format!("({}4, 4)", "1, ".repeat(4_000)), &floats(&[1.0; 16])),
            "has 4002 dims, and a tensor at most 8",
        ),
        ("zip.npy", npz(&[("A", good.clone())], 0), "NumPy's mark"),
        ("big_endian.npy", npy(">f4", "(2, 3)", &[0; 24]), "newbyteorder"),
        ("big_labels.npy", npy(">i8", "(2, 3)", &[0; 48]), "newbyteorder"),
        ("double.npy", npy("<f8", "(2, 3)", &[0; 48]), "astype(numpy.float32)"),
        ("complex.npy", npy("<c8", "(2, 3)", &[0; 48]), "`<c8` are not supported"),
        ("object.npy", npy("|O", "(2, 3)", &[0; 48]), "`|O` are not supported"),
        ("text_elements.npy", npy("<U3", "(2, 3)", &[0; 72]), "`<U3` are not supported"),
        ("void.npy", npy("|V2", "(2, 3)", &[0; 12]), ".safetensors"),
        ("negative.npy", npy("<f4", "(-2, 3)", &[0; 24]), "not understood"),
        ("huge.npy", npy("<f4", "(4294967296, 4294967296)", &[0; 24]), "too large"),
        ("larger.npy", npy("<f4", "(1152921504606846976,)", &[0; 24]), "bytes instead of"),
        ("digits.npy", npy("<f4", "(99999999999999999999999,)", &[0; 24]), "not understood"),
        ("keys.npy", header("{'descr': '<f4', 'shape': (2, 3)}"), "not understood"),
        (
            "more_keys.npy",
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}"),
            "not understood",
        ),
        (
            "not_closed.npy",
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)"),
            "not understood",
        ),
        ("no_text.npy", [&header(""), &b"\xff\xfe"[..]].concat(), "not understood"),
        ("not_utf8.npy", b"\x93NUMPY\x01\x00\x02\x00\xff\xfe".to_vec(), "the header is not text"),
        ("vector.npy", npy("<f4", "(6,)", &[0; 24]), "`A`"),
        ("cube.npy", npy("<f4", "(2, 2, 2, 2, 2, 2)", &[0; 256]), "`A`"),
        ("labels.npy", npy("<i8", "(2, 3)", &[0; 48]), "`@`"),
    ]
}

fn bad_archives() -> Vec<BadFile> {
    let array = || npy("<f4", "(2, 3)", &floats(&[1.0; 6]));
    let good = npz(&[("A", array())], 0);
    let change = |from_end: usize, byte: u8| {
        let mut bytes = good.clone();
        let place = bytes.len() - from_end;
        bytes[place] = byte;
        bytes
    };
    vec![
        ("empty.npz", Vec::new(), "no directory"),
        ("cut.npz", good[..good.len() - 5].to_vec(), "no directory"),
        ("half.npz", good[..good.len() / 2].to_vec(), "no directory"),
        ("array.npz", array(), "no directory"),
        ("start.npz", change(3, 0xee), "longer than the file"),
        ("size.npz", change(7, 0xee), "longer than the file"),
        ("moved.npz", change(6, 1), "directory"),
        ("nothing.npz", npz(&[], 0), "it holds no tensor"),
        ("twice.npz", npz(&[("A", array()), ("A", array())], 0), "two arrays are named `A`"),
        ("deflated.npz", npz(&[("A", array())], 8), "numpy.savez"),
        ("strange.npz", npz(&[("A", b"hello".to_vec())], 0), "not an npy file"),
        ("two.npz", npz(&[("x", array()), ("y", array())], 0), "`--in A=two.npz:NAME`"),
        ("trailing.npz", npz(&[("A", [array(), vec![0]].concat())], 0), "bytes instead of"),
    ]
}

fn bad_safetensors() -> Vec<BadFile> {
    let one = |dtype: &str, shape: &str, offsets: &str, data: usize| {
        with_header(&format!("{{{}}}", entry(dtype, shape, offsets)), data)
    };
    let good = one("F32", "[2,3]", "[0,24]", 24);
    let mut huge = good.clone();
    huge[..8].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    let mut swapped = good.clone();
    swapped[..8].reverse();
    let twice =
        format!("{{{},{}}}", entry("F32", "[2,3]", "[0,24]"), entry("F32", "[2,3]", "[0,24]"));
    let two = safetensors(&[
        ("x", "F32", &[2, 3], floats(&[0.0; 6])),
        (r"y\u001b[31m", "F32", &[2, 3], floats(&[0.0; 6])),
    ]);
    let overlapping = format!(
        r#"{{{},"B":{{"dtype":"F32","shape":[2,3],"data_offsets":[12,36]}}}}"#,
        entry("F32", "[2,3]", "[0,24]")
    );
    vec![
        ("empty.safetensors", Vec::new(), "shorter than a header"),
        ("seven.safetensors", vec![0; 7], "shorter than a header"),
        ("zeros.safetensors", vec![0; 8], "not a safetensors file"),
        ("huge.safetensors", huge, "the header is longer than the file"),
        ("swapped.safetensors", swapped, "the header is longer than the file"),
        ("cut.safetensors", good[..good.len() - 1].to_vec(), "bytes instead of"),
        ("cut_header.safetensors", good[..20].to_vec(), "header"),
        ("more.safetensors", [&good[..], &[0]].concat(), "bytes instead of"),
        (
            "pickle.safetensors",
            b"\x80\x02}q\x00(X\x05\x00\x00\x00modelq\x01".to_vec(),
            "not a safetensors file",
        ),
        ("list.safetensors", with_header("[1, 2]", 0), "an object with a member for each tensor"),
        ("number.safetensors", with_header(r#"{"A": 3}"#, 0), "not a safetensors file"),
        (
            "missing.safetensors",
            with_header(r#"{"A": {"dtype": "F32"}}"#, 0),
            "missing field `shape`",
        ),
        ("negative.safetensors", one("F32", "[-2,3]", "[0,24]", 24), "not a safetensors file"),
        ("fraction.safetensors", one("F32", "[2.5,3]", "[0,24]", 24), "not a safetensors file"),
        ("overflow.safetensors", one("F32", "[4294967296,4294967296]", "[0,24]", 24), "has shape"),
        (
            "shape.safetensors",
            one("F32", "[2,4]", "[0,24]", 24),
            "has shape [2, 4] of F32, and 24 bytes",
        ),
        ("backwards.safetensors", one("F32", "[2,3]", "[24,0]", 24), "should begin at 0"),
        ("hole.safetensors", one("F32", "[2,3]", "[8,32]", 32), "should begin at 0"),
        ("overlap.safetensors", with_header(&overlapping, 36), "`B` lies at bytes 12 to 36"),
        ("offset.safetensors", one("F32", "[2,3]", "[0,18446744073709551615]", 24), "length"),
        ("three.safetensors", one("F32", "[2,3]", "[0,24,48]", 24), "not a safetensors file"),
        ("double.safetensors", one("F64", "[2,3]", "[0,48]", 48), "save it as F32"),
        ("unknown.safetensors", one("F6_E3M2", "[2,4]", "[0,6]", 6), "F6_E3M2"),
        ("twice.safetensors", with_header(&twice, 24), "two tensors are named `A`"),
        ("metadata.safetensors", with_header(r#"{"__metadata__":{}}"#, 0), "it holds no tensor"),
        ("two.safetensors", two, "`--in A=two.safetensors:NAME`"),
        ("nested.safetensors", with_header(&"{\"a\":".repeat(5000), 0), "not a safetensors file"),
        ("bytes.safetensors", with_header("\u{fffd}", 0), "not a safetensors file"),
    ]
}

fn bad_indices_and_endings() -> Vec<BadFile> {
    vec![
        ("a.index.json", b"{}".to_vec(), "missing field `weight_map`"),
        ("b.index.json", b"not json".to_vec(), "not the index of a checkpoint"),
        ("c.index.json", br#"{"weight_map": {}}"#.to_vec(), "it holds no tensor"),
        ("d.index.json", br#"{"weight_map": {"A": 1}}"#.to_vec(), "not the index of a checkpoint"),
        ("e.index.json", br#"{"weight_map": {"A": "/etc/passwd"}}"#.to_vec(), "in its own folder"),
        (
            "f.index.json",
            br#"{"weight_map": {"A": "gone.safetensors"}}"#.to_vec(),
            "gone.safetensors: no such file",
        ),
        (
            "g.index.json",
            br#"{"weight_map": {"A": "x.safetensors", "A": "y.safetensors"}}"#.to_vec(),
            "two tensors",
        ),
        ("h.index.json", br#"{"weight_map": {"A": "d.npy"}}"#.to_vec(), "in its own folder"),
        ("a.pt", vec![0; 8], "the format is not known"),
        ("a.json", b"{}".to_vec(), "the format is not known"),
        ("noending", vec![0; 8], "the format is not known"),
    ]
}

/// Reads A from a file.
fn load(folder: &Path, file: &str) -> Ended {
    let binding = format!("A={file}");
    let arguments = ["run", "D = A @ B", "--in", &binding, "--dtype", "f32", "--size", "N=2"];
    postlude_in(folder, &arguments)
}

#[test]
fn bad_files_are_named_and_described() {
    let folder = tempfile::tempdir().unwrap();
    let files =
        [bad_arrays(), bad_archives(), bad_safetensors(), bad_indices_and_endings()].concat();
    assert!(files.len() > 80, "{}", files.len());
    for (name, bytes, wanted) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
        let errors = load(folder.path(), name).mistake();
        assert!(errors.contains(wanted), "{name}: {errors}");
        assert!(errors.chars().all(|letter| letter == '\n' || !letter.is_control()), "{errors:?}");
        let names_place = errors.contains(name)
            || errors.contains("<text>:1")
            || errors.contains(".safetensors:");
        assert!(names_place, "{name}: {errors}");
    }
}

#[test]
fn every_cut_of_a_good_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let array = npy("<f4", "(2, 3)", &floats(&[1.0; 6]));
    for (name, bytes) in [
        ("A.npy", array.clone()),
        ("A.npz", npz(&[("A", array)], 0)),
        ("A.safetensors", safetensors(&[("A", "F32", &[2, 3], floats(&[1.0; 6]))])),
    ] {
        fs::write(folder.path().join(name), &bytes).unwrap();
        load(folder.path(), name).fine();
        for length in (0..bytes.len()).step_by(7) {
            fs::write(folder.path().join(name), &bytes[..length]).unwrap();
            load(folder.path(), name).mistake();
        }
    }
}

#[test]
fn what_is_not_a_regular_file_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder.npy")).unwrap();
    fs::create_dir(folder.path().join("folder.index.json")).unwrap();
    std::os::unix::fs::symlink("nowhere.npy", folder.path().join("link.npy")).unwrap();
    std::os::unix::fs::symlink("loop.npy", folder.path().join("loop.npy")).unwrap();
    let pipe = folder.path().join("pipe.npy");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    for (name, wanted) in [
        ("folder.npy", "this is a folder"),
        ("folder.index.json", "this is a folder"),
        ("link.npy", "no such file"),
        ("loop.npy", "too many levels"),
        ("missing.safetensors:a.b", "missing.safetensors: no such file"),
        ("missing.safetensors:", "missing behind `:`"),
        ("a/b/c.npz", "no such file"),
        ("link.npy/x.npy", "link.npy/x.npy"),
        ("pipe.npy", "not a regular file"),
    ] {
        if name == "pipe.npy" && !made.as_ref().is_ok_and(std::process::ExitStatus::success) {
            continue;
        }
        let errors = load(folder.path(), name).mistake();
        assert!(errors.contains(wanted), "{name}: {errors}");
    }
}

#[test]
fn names_with_odd_letters_are_files_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = npy("<f4", "(2, 3)", &floats(&[1.0; 6]));
    for name in
        ["with space.npy", "größe.npy", "a=b.npy", "a:b.npy", "--x.npy", "q'\"`.npy", "n\nl.npy"]
    {
        fs::write(folder.path().join(name), &bytes).unwrap();
        load(folder.path(), name).fine();
    }
    // A name that is not UTF-8 is refused, and does not end the program otherwise.
    let odd = std::ffi::OsStr::from_bytes(b"A=\xff.npy");
    let output = command(&["run", "D = A @ B", "--in"]).arg(odd).output().unwrap();
    Ended::of(&output).mistake();
}

#[test]
fn bad_command_lines_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::write(here.join("A.npy"), npy("<f4", "(2, 3)", &floats(&[1.0; 6]))).unwrap();
    fs::write(here.join("file"), "").unwrap();
    fs::create_dir(here.join("D.safetensors")).unwrap();
    let run = ["run", "D = A @ B", "--size", "M=2,N=2,K=3", "--dtype", "f32"];
    for (more, wanted) in [
        (&["--in"][..], "a value is required"),
        (&["--in", "A"], "a name, `=` and a value"),
        (&["--in", "=A.npy"], "a name, `=` and a value"),
        (&["--in", "A="], "a name, `=` and a value"),
        (&["--in", "C=A.npy"], "no input `C`"),
        (&["--in", "a=A.npy"], "did you mean `A`?"),
        (&["--in", "D=A.npy"], "`D`"),
        (&["--in", "A=A.npy", "--in", "A=A.npy"], "bound twice"),
        (&["--in", "A=A.npy", "--fill", "A=ones"], "bound twice"),
        (&["--in", "A=A.npy:x"], "one array, which has no name `x`"),
        (&["--in", "B=A.npy"], "size 2 along `K`, which is 3"),
        (&["--in", "A=A.npy,B=A.npy"], "A.npy,B=A.npy"),
        (&["--out"], "a value is required"),
        (&["--out", "D"], "a name, `=` and a value"),
        (&["--out", "D="], "a name, `=` and a value"),
        (&["--out", "D=x.npz"], "read, not written"),
        (&["--out", "D=x.index.json"], "read, not written"),
        (&["--out", "D=x.txt"], "the format is not known"),
        (&["--out", "D=x.npy:y"], "the format is not known"),
        (&["--out", "D=."], "the format is not known"),
        (&["--out", "D=D.safetensors"], "not a regular file"),
        (&["--out", "D=no/x.npy"], "no such file"),
        (&["--out", "D=file/x.npy"], "file/x.npy"),
        (&["--out", "A=x.npy"], "no output `A`"),
        (&["--out", "D=x.npy", "--out", "D=y.npy"], "written twice"),
        (&["--out", "D=/proc/x.npy"], "/proc"),
        (&["--print"], "a value is required"),
        (&["--print", ""], "no output ``"),
        (&["--print", "A"], "no output `A`"),
        (&["--print", "D,E"], "no output `E`"),
        (&["--print", "d"], "did you mean `D`?"),
        (&["--trace", "no/t.json", "--backend", "sim"], "no such file"),
        (&["--trace", ".", "--backend", "sim"], "not a regular file"),
        (&["--schedule", "missing.txt"], "missing.txt"),
        (&["--schedule", "."], "directory"),
        (&["--set", "A=1"], "`A`"),
        (&["--set", "alpha=1"], "no input `alpha`"),
        (&["--fill", "A=nothing"], "nothing"),
        (&["--seed", "-1"], "-1"),
        (&["--seed", "18446744073709551616"], "--seed"),
        (&["--threads", "1025"], "1024"),
        (&["--backend", "gpu"], "gpu"),
        (&["--check=most"], "most"),
        (&["--timing", "late"], "late"),
        (&["--budget", "0"], "--budget"),
        (&["--grid-limit", "0"], "--grid-limit"),
        (&["--only", ""], "no output ``"),
        (&["--nonsense"], "--nonsense"),
        (&["more"], "more"),
        (&["--math", "sloppy"], "accurate"),
    ] {
        let errors = postlude_in(here, &[&run[..], more].concat()).mistake();
        assert!(errors.contains(wanted), "{more:?}: {errors}");
    }
    let left: Vec<_> =
        fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn objects_carry_what_is_said_about_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("A.npy"), b"hello").unwrap();
    let arguments = ["run", "D = A @ B", "--in", "A=A.npy", "--size", "N=2", "--json"];
    let ended = postlude_in(folder.path(), &arguments);
    assert_eq!((ended.code, ended.errors.as_str()), (Some(2), ""));
    let object = ended.object();
    assert!(object["error"]["message"].as_str().is_some_and(|text| text.starts_with("A.npy: ")));
}
