//! Files as training leaves them: many tensors in a file, several files, dims of size 1, labels of 64 bits.

use std::fs;
use std::path::Path;

use super::postlude_in;

/// A tensor of a file: its name, type, shape and bytes.
pub(super) type Member<'a> = (&'a str, &'a str, &'a [usize], Vec<u8>);

/// The bytes of a safetensors file.
pub(super) fn safetensors(members: &[Member<'_>]) -> Vec<u8> {
    let (mut header, mut data) = (Vec::new(), Vec::<u8>::new());
    for (name, dtype, shape, bytes) in members {
        let start = data.len();
        data.extend(bytes);
        header.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{}]}}"#,
            data.len()
        ));
    }
    let header = format!(r#"{{"__metadata__":{{"format":"pt"}},{}}}"#, header.join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

pub(super) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn wide(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The bytes of an npy file.
pub(super) fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

/// The bytes of an archive as `numpy.savez` writes it, or with another method than storing.
pub(super) fn npz(members: &[(&str, Vec<u8>)], method: u16) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::<u8>::new(), Vec::<u8>::new());
    for (name, data) in members {
        let name = format!("{name}.npy");
        let local = bytes.len() as u32;
        let size = (data.len() as u32).to_le_bytes();
        let fields = |record: &mut Vec<u8>| {
            record.extend([20, 0, 0, 0]);
            record.extend(method.to_le_bytes());
            record.extend([0; 8]);
            record.extend(size);
            record.extend(size);
            record.extend((name.len() as u16).to_le_bytes());
        };
        bytes.extend(b"PK\x03\x04");
        fields(&mut bytes);
        bytes.extend([0; 2]);
        bytes.extend(name.bytes());
        bytes.extend(data);
        directory.extend(b"PK\x01\x02\x14\x00");
        fields(&mut directory);
        directory.extend([0; 12]);
        directory.extend(local.to_le_bytes());
        directory.extend(name.bytes());
    }
    let (start, size) = (bytes.len() as u32, directory.len() as u32);
    bytes.extend(directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(
        [(members.len() as u16).to_le_bytes(), (members.len() as u16).to_le_bytes()].concat(),
    );
    bytes.extend(size.to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

/// A model of three tensors, one of a type that the language does not have.
fn model(folder: &Path) {
    let bytes = safetensors(&[
        ("model.layers.0.mlp.up_proj.weight", "F32", &[2, 2], floats(&[1.0, 2.0, 3.0, 4.0])),
        ("model.layers.1.mlp.up_proj.weight", "F32", &[2, 2], floats(&[5.0, 6.0, 7.0, 8.0])),
        ("odd:name/with.dots", "F32", &[2, 2], floats(&[9.0, 9.0, 9.0, 9.0])),
        ("scale", "F64", &[], vec![0; 8]),
    ]);
    fs::write(folder.join("model.safetensors"), bytes).unwrap();
}

/// The product of ones with W, which adds its rows.
fn sums(folder: &Path, file: &str) -> super::Ended {
    let binding = format!("W={file}");
    let arguments = ["run", "D = A @ W", "--size", "M=1", "--dtype", "f32", "--fill", "A=ones"];
    postlude_in(folder, &[&arguments[..], &["--in", &binding, "--print", "D"]].concat())
}

#[test]
fn a_tensor_is_named_behind_the_file() {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path());
    for (name, wanted) in [
        ("model.layers.0.mlp.up_proj.weight", "[[4. 6.]]"),
        ("model.layers.1.mlp.up_proj.weight", "[[12. 14.]]"),
        ("odd:name/with.dots", "[[18. 18.]]"),
    ] {
        let output = sums(folder.path(), &format!("model.safetensors:{name}")).fine();
        assert!(output.ends_with(&format!("D: f32[1, 2]\n{wanted}\n")), "{output}");
    }
    let whole = folder.path().join("model.safetensors");
    let absolute = format!("{}:model.layers.0.mlp.up_proj.weight", whole.display());
    sums(folder.path(), &absolute).fine();
}

#[test]
fn an_unknown_name_is_answered_with_those_near_it() {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path());
    let errors = sums(folder.path(), "model.safetensors:model.layers.0.mlp.up.weight").mistake();
    assert!(errors.contains("it holds no tensor `model.layers.0.mlp.up.weight`"), "{errors}");
    assert!(errors.contains("`model.layers.0.mlp.up_proj.weight`"), "{errors}");
    let errors = sums(folder.path(), "model.safetensors").mistake();
    assert!(errors.contains("it holds 4 tensors, and none is named `W`"), "{errors}");
    assert!(errors.contains("`--in W=model.safetensors:NAME`"), "{errors}");
}

#[test]
fn a_path_with_a_colon_is_a_path_where_it_exists() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = safetensors(&[("any", "F32", &[2, 2], floats(&[1.0; 4]))]);
    for name in ["12:30.safetensors", "a.safetensors:b.safetensors"] {
        fs::write(folder.path().join(name), &bytes).unwrap();
        sums(folder.path(), name).fine();
    }
    sums(folder.path(), "12:30.safetensors:any").fine();
}

#[test]
fn an_index_leads_to_the_file_that_holds_the_tensor() {
    let folder = tempfile::tempdir().unwrap();
    for (place, value) in [(1, 1.0), (2, 2.0)] {
        let name = format!("layers.{place}");
        let bytes = safetensors(&[(&name, "F32", &[2, 2], floats(&[value; 4]))]);
        fs::write(folder.path().join(format!("part-{place}.safetensors")), bytes).unwrap();
    }
    let index = |map: &str| {
        let text = format!(r#"{{"metadata":{{"total_size":32}},"weight_map":{{{map}}}}}"#);
        fs::write(folder.path().join("model.safetensors.index.json"), text).unwrap();
    };
    index(
        r#""layers.1":"part-1.safetensors","layers.2":"part-2.safetensors","lost":"part-3.safetensors","moved":"part-1.safetensors","up":"../x.safetensors","round":"model.safetensors.index.json""#,
    );
    let file = "model.safetensors.index.json";
    for (name, wanted) in [("layers.1", "[[2. 2.]]"), ("layers.2", "[[4. 4.]]")] {
        let output = sums(folder.path(), &format!("{file}:{name}")).fine();
        assert!(output.ends_with(&format!("{wanted}\n")), "{output}");
    }
    for (name, wanted) in [
        ("lost", "part-3.safetensors: no such file"),
        ("moved", "part-1.safetensors: it holds no tensor `moved`"),
        ("up", "files in its own folder"),
        ("round", "files in its own folder"),
        ("layers.3", "`layers.1`"),
    ] {
        let errors = sums(folder.path(), &format!("{file}:{name}")).mistake();
        assert!(errors.contains(wanted), "{name}: {errors}");
    }
    index(r#""layers.1":"part-1.safetensors""#);
    sums(folder.path(), file).fine();
}

#[test]
fn arrays_of_an_archive_are_read_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let array = |value: f32| npy("<f4", "(2, 2)", &floats(&[value; 4]));
    fs::write(folder.path().join("a.npz"), npz(&[("x", array(1.0)), ("y.z", array(2.0))], 0))
        .unwrap();
    for (name, wanted) in [("x", "[[2. 2.]]"), ("y.z", "[[4. 4.]]")] {
        let output = sums(folder.path(), &format!("a.npz:{name}")).fine();
        assert!(output.ends_with(&format!("{wanted}\n")), "{output}");
    }
    assert!(sums(folder.path(), "a.npz").mistake().contains("it holds `x`, `y.z`"));
    fs::write(folder.path().join("b.npz"), npz(&[("x", array(1.0))], 8)).unwrap();
    assert!(sums(folder.path(), "b.npz").mistake().contains("numpy.savez"));
}

#[test]
fn dims_of_size_1_are_taken_where_they_mean_one_thing() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = "kernel k(A: f32[M, K], B: f32[K, N], s: f32[], r: f32[N], c: f32[M]) -> D: f32[M, N] { D = s * (A @ B) + r[N] + c[M] }";
    let write = |name: &str, shape: &str, count: usize| {
        let bytes = npy("<f4", shape, &floats(&vec![1.0; count]));
        fs::write(folder.path().join(format!("{name}.npy")), bytes).unwrap();
    };
    write("A", "(1, 1, 2, 3)", 6);
    for (s, r, c) in [
        ("()", "(4,)", "(2,)"),
        ("(1,)", "(1, 4)", "(2, 1)"),
        ("(1, 1)", "(4, 1)", "(1, 2)"),
        ("(1, 1, 1, 1, 1)", "(1, 1, 4)", "(1, 2, 1)"),
    ] {
        write("s", s, 1);
        write("r", r, 4);
        write("c", c, 2);
        let files = ["--in", "A=A.npy", "--in", "s=s.npy", "--in", "r=r.npy", "--in", "c=c.npy"];
        let run = [&["run", kernel, "--fill", "B=ones", "--check"][..], &files].concat();
        let output = postlude_in(folder.path(), &run).fine();
        assert!(output.starts_with("D  f32[2, 4]  mean 5  absmax 5\n"), "{output}");
    }
}

#[test]
fn a_batch_of_one_may_be_left_out_and_added() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = "kernel k(A: f32[L, M, K], B: f32[L, K, N]) -> D: f32[L, M, N] { D = A @ B }";
    let write = |name: &str, shape: &str, count: usize| {
        let bytes = npy("<f4", shape, &floats(&vec![1.0; count]));
        fs::write(folder.path().join(format!("{name}.npy")), bytes).unwrap();
    };
    write("A", "(2, 3)", 6);
    write("B", "(1, 3, 4)", 12);
    let files = ["--in", "A=A.npy", "--in", "B=B.npy"];
    let output = postlude_in(folder.path(), &[&["run", kernel][..], &files].concat()).fine();
    assert!(output.starts_with("D  f32[1, 2, 4]  mean 3"), "{output}");
    // Without B the dim of size 1 may be any of three.
    let sizes = ["--size", "N=4"];
    let run = [&["run", kernel, "--in", "A=A.npy"][..], &sizes].concat();
    let errors = postlude_in(folder.path(), &run).mistake();
    assert!(errors.contains("[1, 2, 3] or [2, 1, 3] or [2, 3, 1]"), "{errors}");
    let run = [&["run", kernel, "--in", "A=A.npy", "--size", "N=4,L=1,M=2"][..]].concat();
    postlude_in(folder.path(), &run).fine();
    // Two tensors that leave the batch out decide for each other only where they can.
    write("B", "(7, 3, 4)", 84);
    let errors = postlude_in(folder.path(), &[&["run", kernel][..], &files].concat()).mistake();
    assert!(errors.contains("dims [L=7, M, K=3], but has shape [2, 3]"), "{errors}");
}

#[test]
fn labels_of_other_widths_are_taken_where_they_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.npy");
    let run = |source: &str| {
        let arguments = ["run", source, "--in", "t=t.npy", "--size", "N=4,K=2", "--check"];
        postlude_in(folder.path(), &[&arguments[..], &["--fill", "A=ones"]].concat())
    };
    let one_liner = "loss = mean(pick(A @ B, t[M]))";
    for (descr, bytes) in [
        ("<i8", wide(&[3, 0, 1])),
        ("<u8", wide(&[3, 0, 1])),
        ("<u4", [3_u32, 0, 1].iter().flat_map(|value| value.to_le_bytes()).collect()),
        ("<i2", [3_i16, 0, 1].iter().flat_map(|value| value.to_le_bytes()).collect()),
        ("<u2", [3_u16, 0, 1].iter().flat_map(|value| value.to_le_bytes()).collect()),
        ("<i4", [3_i32, 0, 1].iter().flat_map(|value| value.to_le_bytes()).collect()),
    ] {
        fs::write(&path, npy(descr, "(3,)", &bytes)).unwrap();
        run("cross_entropy_loss");
        assert!(run(one_liner).fine().contains("check ok"), "{descr}");
    }
    fs::write(&path, npy("<i8", "(3, 1)", &wide(&[1, 2, 3_000_000_000]))).unwrap();
    // An index is the nearest i32; what is computed with has to fit.
    assert!(run(one_liner).fine().contains("nan"));
    let errors = run("D = A @ B * t[M]").mistake();
    assert!(errors.contains("element [2, 0] of int64 is 3000000000"), "{errors}");
    fs::write(&path, npy("<u8", "(3,)", &wide(&[1, 2, 3_000_000_000]))).unwrap();
    let errors = run(one_liner).mistake();
    assert!(errors.contains("element [2] of uint64 is 3000000000"), "{errors}");
    fs::write(&path, npy("<f8", "(3,)", &[0; 24])).unwrap();
    assert!(run(one_liner).mistake().contains("astype(numpy.float32)"));
    let narrow =
        "kernel k(A: f32[M, K], B: f32[K, N], t: u8[M]) -> D: f32[M, N] { D = A @ B + f32(t[M]) }";
    fs::write(&path, npy("<i8", "(3,)", &wide(&[1, 2, 3]))).unwrap();
    assert!(run(narrow).mistake().contains("declared u8, but int64 was given"));
}
