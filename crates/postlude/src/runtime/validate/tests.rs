//! What a call on a GPU may and may not be.

use super::*;
use crate::Kernel;
use crate::dtype::DType;

const SOURCE: &str = "kernel linear(A: bf16[M, K], W: bf16[N, K], C: bf16[M, N], bias: f32[N], alpha: f32) -> (D: bf16[M, N], peak: f32[N]) {
    Z = alpha * (A @ W.T) + C + bias
    D = relu(Z)
    peak = max(abs(Z), M)
}";

struct Call {
    inputs: BTreeMap<String, DeviceArgument>,
    outputs: BTreeMap<String, DeviceTensor>,
}

fn call() -> Call {
    let tensor = |dtype, shape: &[usize], address| {
        DeviceTensor::contiguous(dtype, shape.to_vec(), address, 0)
    };
    let input =
        |dtype, shape: &[usize], address| DeviceArgument::Tensor(tensor(dtype, shape, address));
    let named = |name: &str| name.to_owned();
    Call {
        inputs: BTreeMap::from([
            (named("A"), input(DType::BF16, &[8, 16], 0x1_0000)),
            (named("W"), input(DType::BF16, &[4, 16], 0x2_0000)),
            (named("C"), input(DType::BF16, &[8, 4], 0x3_0000)),
            (named("bias"), input(DType::F32, &[4], 0x4_0000)),
            (named("alpha"), DeviceArgument::Scalar(2.0)),
        ]),
        outputs: BTreeMap::from([
            (named("D"), tensor(DType::BF16, &[8, 4], 0x5_0000)),
            (named("peak"), tensor(DType::F32, &[4], 0x6_0000)),
        ]),
    }
}

impl Call {
    fn input(&mut self, name: &str) -> &mut DeviceTensor {
        match self.inputs.get_mut(name) {
            Some(DeviceArgument::Tensor(tensor)) => tensor,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn output(&mut self, name: &str) -> &mut DeviceTensor {
        self.outputs.get_mut(name).unwrap()
    }

    fn validate(&self) -> Result<Problem, RuntimeError> {
        let kernel = Kernel::parse(SOURCE).unwrap();
        validate(kernel.defined(), 0, &self.inputs, &self.outputs, &Sizes::new())
    }
}

fn changed(change: impl FnOnce(&mut Call)) -> Result<Problem, RuntimeError> {
    let mut call = call();
    change(&mut call);
    call.validate()
}

fn refused(change: impl FnOnce(&mut Call)) -> String {
    changed(change).unwrap_err().to_string()
}

#[test]
fn a_good_call_tells_its_sizes() {
    let problem = call().validate().unwrap();
    assert_eq!((problem.rows, problem.columns, problem.inner), (8, 4, 16));
}

#[test]
fn types_sizes_and_names_are_checked() {
    let message = refused(|call| call.input("A").dtype = DType::F16);
    assert_eq!(message, "`A` is declared bf16, but f16 was given");
    let message = refused(|call| call.output("D").dtype = DType::F32);
    assert_eq!(message, "`D` is declared bf16, but f32 was given");
    let message = refused(|call| call.input("bias").shape = vec![5]);
    assert!(message.contains("`bias` has size 5 along `N`, which is 4"), "{message}");
    let message = refused(|call| call.output("D").shape = vec![4, 8]);
    assert!(message.contains("`D` has size 4 along `M`"), "{message}");
    let message = refused(|call| drop(call.outputs.remove("peak")));
    assert_eq!(message, "output `peak` is missing");
    let message = refused(|call| drop(call.inputs.remove("C")));
    assert_eq!(message, "input `C` is missing");
    let message = refused(|call| {
        let extra = call.output("D").clone();
        call.outputs.insert("E".to_owned(), extra);
    });
    assert_eq!(message, "the kernel has no output `E`");
    let message = refused(|call| call.input("C").strides.truncate(1));
    assert_eq!(message, "`C` has 2 sizes and 1 strides");
}

#[test]
fn memory_is_aligned_and_of_the_kernels_gpu() {
    let message = refused(|call| call.input("W").device = 1);
    assert_eq!(message, "`W` is on GPU 1, but the kernel runs on GPU 0");
    let message = refused(|call| call.output("D").address += 1);
    assert_eq!(message, "`D` starts at 0x50001, which is not aligned to its bf16");
    let message = refused(|call| call.input("C").address = 0);
    assert_eq!(message, "`C` is not memory of a GPU");
    let message = refused(|call| call.input("C").strides = vec![isize::MAX, 1]);
    assert_eq!(message, "`C` reaches outside the address space");
    let message = refused(|call| call.input("C").strides = vec![-0x1_0000, 1]);
    assert_eq!(message, "`C` reaches outside the address space");
}

#[test]
fn halves_of_bytes_lie_in_pairs() {
    let tensor = |shape: [usize; 2], strides: [isize; 2]| {
        let (shape, strides) = (shape.to_vec(), strides.to_vec());
        DeviceTensor { dtype: DType::I4, shape, strides, address: 0x1001, device: 0, list: None }
    };
    let check = |shape, strides| check_tensor("W", &tensor(shape, strides), 0);
    for (shape, strides) in
        [([4, 8], [8, 1]), ([4, 8], [-10, 1]), ([1, 8], [3, 1]), ([4, 8], [0, 1])]
    {
        assert!(check(shape, strides).is_ok(), "{shape:?} {strides:?}");
    }
    for (shape, strides) in
        [([4, 8], [9, 1]), ([4, 8], [1, 4]), ([4, 8], [8, -1]), ([4, 8], [16, 2])]
    {
        let error = check(shape, strides).expect_err("it is refused");
        assert!(error.to_string().contains("its last dim has to be contiguous"), "{error}");
        assert!(error.fix().is_some());
    }
}

#[test]
fn an_output_may_be_exactly_a_tile_operand() {
    assert!(changed(|call| call.output("D").address = 0x3_0000).is_ok());
    let fix = |result: Result<Problem, RuntimeError>| {
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), "output `D` overlaps `C` without being the same tile");
        error.fix().unwrap()
    };
    let later = fix(changed(|call| call.output("D").address = 0x3_0008));
    assert!(later.contains("exactly the tile it replaces"), "{later}");
    fix(changed(|call| {
        call.output("D").address = 0x3_0000;
        call.output("D").strides = vec![8, 1];
    }));
}

#[test]
fn a_tile_that_all_batches_read_is_not_written_over() {
    let kernel = Kernel::parse(
        "kernel k(A: bf16[L, M, K], W: bf16[N, K], C: bf16[M, N]) -> (D: bf16[L, M, N], E: bf16[M, N]) {
            D = A @ W.T + C
            E = C * 2.0
        }",
    );
    let tensor = |shape: &[usize], address| {
        DeviceTensor::contiguous(DType::BF16, shape.to_vec(), address, 0)
    };
    let inputs =
        [("A", &[2, 8, 16][..], 0x1_0000), ("W", &[4, 16], 0x2_0000), ("C", &[8, 4], 0x3_0000)];
    let inputs = inputs.map(|(name, shape, address)| {
        (name.to_owned(), DeviceArgument::Tensor(tensor(shape, address)))
    });
    let outputs = [("D", tensor(&[2, 8, 4], 0x5_0000)), ("E", tensor(&[8, 4], 0x3_0000))];
    let outputs = outputs.map(|(name, tensor)| (name.to_owned(), tensor));
    let (inputs, outputs) = (BTreeMap::from(inputs), BTreeMap::from(outputs));
    let result = validate(kernel.unwrap().defined(), 0, &inputs, &outputs, &Sizes::new());
    let message = "output `E` overlaps `C` without being the same tile";
    assert_eq!(result.unwrap_err().to_string(), message);
}

#[test]
fn an_output_is_never_an_operand_of_the_product() {
    for (name, address) in [("A", 0x1_0000), ("W", 0x2_0000 + 8)] {
        let message = refused(|call| call.output("D").address = address);
        assert_eq!(message, format!("output `D` is also `{name}`, an operand of the product"));
    }
}

#[test]
fn vectors_and_other_outputs_are_not_overlapped() {
    let message = refused(|call| call.output("peak").address = 0x4_0000);
    assert_eq!(message, "output `peak` overlaps `bias` without being the same tile");
    let message = refused(|call| call.output("peak").address = 0x5_0000 + 60);
    assert_eq!(message, "outputs `D` and `peak` overlap");
}

#[test]
fn slices_of_one_buffer_are_fine_side_by_side() {
    let side_by_side = |call: &mut Call| {
        call.input("C").strides = vec![8, 1];
        *call.output("D") = DeviceTensor { address: 0x3_0008, ..call.input("C").clone() };
    };
    assert!(changed(side_by_side).is_ok());
}

#[test]
fn elements_of_an_output_have_places_of_their_own() {
    let message = refused(|call| call.output("D").strides = vec![0, 1]);
    assert!(message.starts_with("output `D` has strides [0, 1]"), "{message}");
    assert!(changed(|call| call.input("C").strides = vec![0, 1]).is_ok(), "inputs may repeat");
}

#[test]
fn a_tile_declared_the_other_way_round_is_not_the_same_tile() {
    let source = "kernel square(A: bf16[M, K], W: bf16[N, K], C: bf16[N, M]) -> D: bf16[M, N] { D = A @ W.T + C.T }";
    let kernel = Kernel::parse(source).unwrap();
    let tensor = |strides: [isize; 2], address| DeviceTensor {
        strides: strides.to_vec(),
        ..DeviceTensor::contiguous(DType::BF16, vec![8, 8], address, 0)
    };
    let validated = |strides| {
        let inputs = [("A", [8, 1], 0x1_0000), ("W", [8, 1], 0x2_0000), ("C", strides, 0x3_0000)];
        let inputs = inputs.map(|(name, strides, address)| {
            (name.to_owned(), DeviceArgument::Tensor(tensor(strides, address)))
        });
        let outputs = BTreeMap::from([("D".to_owned(), tensor([8, 1], 0x3_0000))]);
        validate(kernel.defined(), 0, &BTreeMap::from(inputs), &outputs, &Sizes::new())
    };
    assert!(matches!(validated([8, 1]), Err(RuntimeError::Overlap { .. })));
    assert!(validated([1, 8]).is_ok());
}

/// What is read as pairs and written as halves is read where other elements are written.
#[test]
fn an_output_over_an_operand_that_is_split_another_way_is_refused() {
    let validated = |split: &str| {
        let source = format!(
            "kernel k(A: bf16[M, K], W: bf16[N/2, K], C: bf16[M, N]) -> D: bf16[M, N] {{
                a, b = {split}(C)
                y = A @ W.T
                D = concat(a * y, b * y)
            }}"
        );
        let kernel = Kernel::parse(&source).unwrap();
        let tensor = |shape: [usize; 2], address| {
            DeviceTensor::contiguous(DType::BF16, shape.to_vec(), address, 0)
        };
        let inputs = [("A", [8, 16], 0x1_0000), ("W", [4, 16], 0x2_0000), ("C", [8, 8], 0x3_0000)];
        let inputs = inputs.map(|(name, shape, address)| {
            (name.to_owned(), DeviceArgument::Tensor(tensor(shape, address)))
        });
        let outputs = BTreeMap::from([("D".to_owned(), tensor([8, 8], 0x3_0000))]);
        validate(kernel.defined(), 0, &inputs.into(), &outputs, &Sizes::new())
    };
    assert!(validated("halves").is_ok());
    assert!(matches!(validated("pairs"), Err(RuntimeError::Overlap { .. })));
}
