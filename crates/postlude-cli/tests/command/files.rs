//! Tensors in files: every dtype there and back, and files that lie.

use std::fs;
use std::path::Path;

use super::postlude_in;

/// Every dtype of each format.
const SAFETENSORS: [&str; 10] =
    ["f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "u8", "i32", "bool", "b1"];
const NPY: [&str; 7] = ["f32", "f16", "i8", "u8", "i32", "bool", "b1"];

/// A kernel that stores a tile of a dtype, and one that reads it and stores it again.
fn kernels(dtype: &str) -> [String; 2] {
    let value = if ["bool", "b1"].contains(&dtype) { "z > 0" } else { "z" };
    let product = "A: f32[M, K], B: f32[K, N]";
    let make = format!("kernel make({product}) -> X: {dtype}[M, N] {{ z = A @ B; X = {value} }}");
    let zero =
        if ["bool", "b1"].contains(&dtype) { "X | (A @ B > inf)" } else { "X + 0 * (A @ B)" };
    let copy =
        format!("kernel copy({product}, X: {dtype}[M, N]) -> Y: {dtype}[M, N] {{ Y = {zero} }}");
    [make, copy]
}

#[test]
fn every_dtype_goes_there_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let all = SAFETENSORS.iter().map(|dtype| (dtype, "safetensors"));
    for (dtype, ending) in all.chain(NPY.iter().map(|dtype| (dtype, "npy"))) {
        let [make, copy] = kernels(dtype);
        let (x, y) = (format!("X=x.{ending}"), format!("Y=y.{ending}"));
        let size = ["--size", "M=3,N=16,K=4"];
        let made = postlude_in(folder.path(), &[&["run", &make, "--out", &x][..], &size].concat());
        assert_eq!((made.code, made.errors.as_str()), (Some(0), ""), "{dtype}");
        // M and N come from the file.
        let arguments = ["run", &copy, "--in", &x, "--out", &y, "--size", "K=4", "--check"];
        let copied = postlude_in(folder.path(), &arguments);
        assert_eq!((copied.code, copied.errors.as_str()), (Some(0), ""), "{dtype}");
        let data = |name: &str| {
            let bytes = fs::read(folder.path().join(format!("{name}.{ending}"))).unwrap();
            let data = 3 * 16 * bits(dtype) / 8;
            bytes[bytes.len() - data..].to_vec()
        };
        assert_eq!(data("x"), data("y"), "{dtype} {ending}");
        assert!(data("x").iter().any(|byte| *byte != 0), "{dtype}");
    }
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 4, "temporary files were left");
}

/// Two elements of four bits in each byte of a file, the even one in the lower half.
#[test]
fn bytes_are_read_as_elements_of_four_bits() {
    let folder = tempfile::tempdir().unwrap();
    let product = "A: f32[M, K], B: f32[K, N]";
    let make = format!("kernel make({product}) -> X: u8[M, N] {{ X = 100 * abs(A @ B) }}");
    for ending in ["safetensors", "npy"] {
        let x = format!("X=x.{ending}");
        let arguments = ["run", &make, "--out", &x, "--size", "M=3,N=16,K=4"];
        postlude_in(folder.path(), &arguments).fine();
        let data = |name: &str, size: usize| {
            let bytes = fs::read(folder.path().join(name)).unwrap();
            bytes[bytes.len() - size..].to_vec()
        };
        let bytes = data(&format!("x.{ending}"), 48);
        for (dtype, shift) in [("u4", 0), ("i4", 8)] {
            let read = format!(
                "kernel read({product}, X: {dtype}[M, N]) -> Y: u8[M, N] {{ Y = X + {shift} + 0 * (A @ B) }}"
            );
            let arguments =
                ["run", &read, "--in", &x, "--out", "Y=y.npy", "--size", "K=4", "--check"];
            postlude_in(folder.path(), &arguments).fine();
            let halves = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
            // Adding 8 to a signed half turns its highest bit over.
            let wanted: Vec<u8> = halves.map(|half| half ^ shift).collect();
            assert_eq!(data("y.npy", 96), wanted, "{dtype} {ending}");
        }
    }
}

fn bits(dtype: &str) -> usize {
    match dtype {
        "f32" | "i32" => 32,
        "f16" | "bf16" => 16,
        "b1" => 1,
        _ => 8,
    }
}

#[test]
fn several_outputs_share_a_safetensors_file() {
    let folder = tempfile::tempdir().unwrap();
    let source = "Z = A @ B; D = relu(Z); peak = max(D)";
    let outs = ["--out", "Z=all.safetensors", "--out", "peak=all.safetensors"];
    let size = ["--size", "M=3,N=5,K=4"];
    postlude_in(folder.path(), &[&["run", source][..], &outs, &size].concat()).fine();
    let bytes = fs::read(folder.path().join("all.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(tensors.tensor("Z").unwrap().shape(), [3, 5]);
    assert_eq!(tensors.tensor("peak").unwrap().shape(), [0usize; 0]);
    let errors = postlude_in(
        folder.path(),
        &[&["run", source, "--dtype", "f32", "--out", "Z=x.npy", "--out", "peak=x.npy"][..], &size]
            .concat(),
    );
    assert!(errors.mistake().contains("written here too"));
}

/// An npy file of f32 zeros with any header.
fn npy(folder: &Path, header: &str, elements: usize) {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    for element in 0..elements {
        bytes.extend((element as f32).to_le_bytes());
    }
    fs::write(folder.join("a.npy"), bytes).unwrap();
}

#[test]
fn column_major_arrays_are_read_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let source = "kernel k(A: f32[M, K], B: f32[K, N]) -> first: f32[M] { first = sum(A @ B, N) }";
    let mut means = Vec::new();
    for order in ["True", "False"] {
        let header = format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': (2, 3), }}\n");
        npy(folder.path(), &header, 6);
        let arguments = ["run", source, "--in", "A=a.npy", "--size", "N=1", "--fill", "B=ones"];
        let outs = ["--out", "first=first.npy"];
        postlude_in(folder.path(), &[&arguments[..], &outs].concat()).fine();
        let bytes = fs::read(folder.path().join("first.npy")).unwrap();
        let floats = bytes[bytes.len() - 8..].chunks(4);
        means.push(floats.map(|f| f32::from_le_bytes(f.try_into().unwrap())).collect::<Vec<_>>());
    }
    assert_eq!(means, [[0.0 + 2.0 + 4.0, 1.0 + 3.0 + 5.0], [0.0 + 1.0 + 2.0, 3.0 + 4.0 + 5.0]]);
}

#[test]
fn arrays_that_lie_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let load = || {
        let arguments = ["run", "D = A @ B", "--in", "A=a.npy", "--dtype", "f32", "--size", "N=2"];
        postlude_in(folder.path(), &arguments)
    };
    for (shape, elements, wanted) in [
        ("(2, 3)", 5, "length is not what the header says"),
        ("(2, 3)", 7, "length is not what the header says"),
        ("(99999999999, 99999999999)", 6, "too large"),
        ("(9999999999, 9)", 6, "length is not"),
        ("(-1, 3)", 6, "not understood"),
    ] {
        npy(
            folder.path(),
            &format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}"),
            elements,
        );
        let errors = load().mistake();
        assert!(errors.contains(wanted), "{shape}: {errors}");
    }
    for descr in ["'<f8'", "'>f4'", "'|V2'", "[('x', '<f4')]"] {
        npy(
            folder.path(),
            &format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2, 3)}}"),
            6,
        );
        load().mistake();
    }
    for bytes in [
        &b""[..],
        b"\x93NUMPY",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        b"\x93NUMPY\x09\x00",
        &[7; 100],
    ] {
        fs::write(folder.path().join("a.npy"), bytes).unwrap();
        load().mistake();
    }
}

#[test]
fn safetensors_that_lie_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.safetensors");
    let load = || {
        let arguments =
            ["run", "D = A @ B", "--in", "A=a.safetensors", "--dtype", "f32", "--size", "N=2"];
        postlude_in(folder.path(), &arguments)
    };
    let write = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.resize(bytes.len() + data, 0);
        fs::write(&path, bytes).unwrap();
    };
    let info = |dtype: &str, shape: &str, end: &str| {
        format!(r#"{{"A":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{end}]}}}}"#)
    };
    for (header, data, wanted) in [
        (info("F32", "[2,3]", "24"), 23, "length is not"),
        (info("F32", "[2,3]", "24"), 25, "length is not"),
        (info("F32", "[99999999999,99999999999]", "24"), 24, "not a safetensors file"),
        (info("F32", "[2,3]", "18446744073709551615"), 24, "not a safetensors file"),
        (info("F64", "[2,3]", "48"), 48, "F64"),
        (info("F99", "[2,3]", "24"), 24, "elements of type F99"),
        ("{}".to_owned(), 0, "holds no tensor"),
        ("[".repeat(100_000), 0, "not a safetensors file"),
        (info("F16", "[2,3]", "12"), 12, "operands of `@` differ"),
    ] {
        write(&header, data);
        let errors = load().mistake();
        assert!(errors.contains(wanted), "{header:.80}: {errors}");
    }
    for bytes in [&b""[..], &[255; 8], &[255; 100], &[0; 8], &[1, 0, 0, 0, 0, 0, 0, 0, b'{']] {
        fs::write(&path, bytes).unwrap();
        load().mistake();
    }
}

#[test]
fn shapes_and_dtypes_have_to_be_the_declared_ones() {
    let folder = tempfile::tempdir().unwrap();
    npy(folder.path(), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", 6);
    for (source, more, wanted) in [
        ("linear", &[][..], "declared bf16, but f32 was given"),
        ("D = A @ B", &["--size", "M=3"], "has size 2 along `M`, which is 3"),
        ("D = A @ A", &[], ""),
        (
            "D = A @ B + x[N]",
            &["--in", "x=a.npy"],
            "declared with dims [N=2], but has shape [2, 3]",
        ),
    ] {
        let arguments = ["run", source, "--in", "A=a.npy", "--dtype", "f32", "--size", "N=2"];
        let errors = postlude_in(folder.path(), &[&arguments[..], more].concat()).mistake();
        assert!(errors.contains(wanted), "{source}: {errors}");
    }
    let agreeing =
        ["run", "D = A @ B", "--in", "A=a.npy", "--dtype", "f32", "--size", "M=2,N=2,K=3"];
    postlude_in(folder.path(), &agreeing).fine();
}
