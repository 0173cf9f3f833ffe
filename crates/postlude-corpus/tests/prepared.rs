//! Calls of the Rust interface: validated whatever is passed, without copies, and without memory of their own once warm.
//!
//! A program of its own, in a package with few dependencies: it counts its page faults, and AddressSanitizer runs it.

use std::thread;

use postlude::{
    Argument, Arguments, Backend, Compiled, DType, Kernel, Options, Sizes, Tensor, TensorView,
    TensorViewMut,
};

const LINEAR: &str = "kernel linear(A: f32[M, K], W: f32[N, K], bias: f32[N], alpha: f32) \
                      -> (D: f32[M, N], peak: f32[M]) \
                      { z = alpha * (A @ W.T) + bias; D = gelu(z); peak = max(z, N) }";

fn compiled(threads: usize) -> Compiled {
    let kernel = Kernel::parse(LINEAR).expect("a kernel");
    kernel.compile(&Options { threads: Some(threads), ..Options::default() })
}

fn sizes(m: usize, n: usize, k: usize) -> Sizes {
    [("M", m), ("N", n), ("K", k)].map(|(dim, size)| (dim.to_owned(), size)).into()
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|place| (place * 7 % 31) as f32 / 16.0 - 1.0).collect()
}

/// Arguments of [`LINEAR`] in the order of its signature.
fn arguments<'a>(a: &'a [f32], w: &'a [f32], bias: &'a [f32]) -> [Argument<'a>; 4] {
    let (n, k) = (bias.len(), w.len() / bias.len());
    [
        TensorView::new(a, [a.len() / k, k]).expect("A").into(),
        TensorView::new(w, [n, k]).expect("W").into(),
        TensorView::new(bias, [n]).expect("bias").into(),
        0.5.into(),
    ]
}

/// Page faults of this process that took no disk.
#[cfg(target_os = "linux")]
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux tells");
    // The name of the program is in parentheses and may hold spaces; `minflt` is the eighth field behind it.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    fields.split_whitespace().nth(7).and_then(|field| field.parse().ok()).expect("a number")
}

#[test]
#[cfg(target_os = "linux")]
fn a_warm_prepared_call_takes_no_page_fault() {
    for (m, n, k) in [(1, 1024, 1024), (64, 512, 256), (300, 700, 40)] {
        let (a, w, bias) = (numbers(m * k), numbers(n * k), numbers(n));
        let (mut d, mut peak) = (vec![0.0f32; m * n], vec![0.0f32; m]);
        let compiled = compiled(1);
        let prepared = compiled.prepare(&compiled.problem(&sizes(m, n, k)).unwrap()).unwrap();
        let inputs = arguments(&a, &w, &bias);
        let mut run = || {
            let d = TensorViewMut::new(&mut d, [m, n]).unwrap();
            let peak = TensorViewMut::new(&mut peak, [m]).unwrap();
            prepared.run(&inputs, &mut [d, peak]).unwrap();
        };
        (0..3).for_each(|_| run());
        // Other threads of the test's own process may fault; the least of several counts is that of the call.
        let counted = (0..20).map(|_| {
            let before = page_faults();
            (0..5).for_each(|_| run());
            page_faults() - before
        });
        assert_eq!(counted.min(), Some(0), "{m} x {n} x {k}");
    }
}

#[test]
fn threads_share_one_w_and_agree_to_the_bit() {
    let (m, n, k) = (3, 96, 70);
    let (w, bias) = (numbers(n * k), numbers(n));
    let compiled = compiled(1);
    let prepared = compiled.prepare(&compiled.problem(&sizes(m, n, k)).unwrap()).unwrap();
    let a = numbers(m * k);
    let results: Vec<(usize, Vec<f32>)> = thread::scope(|scope| {
        let work = || {
            let inputs = arguments(&a, &w, &bias);
            let (mut d, mut peak) = (vec![0.0f32; m * n], vec![0.0f32; m]);
            for _ in 0..50 {
                let d = TensorViewMut::new(&mut d, [m, n]).unwrap();
                let peak = TensorViewMut::new(&mut peak, [m]).unwrap();
                prepared.run(&inputs, &mut [d, peak]).unwrap();
            }
            (inputs[1].tensor().unwrap().bytes().as_ptr().addr(), d)
        };
        let running: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(results.iter().all(|(address, _)| *address == w.as_ptr().addr()));
    assert!(results.iter().all(|(_, d)| *d == results[0].1));
}

#[test]
fn prepared_calls_give_the_bits_of_others_whatever_the_threads_and_rows() {
    for m in [1, 2, 15, 16, 17, 100, 130] {
        let (n, k) = (200, 300);
        let (a, w, bias) = (numbers(m * k), numbers(n * k), numbers(n));
        let names = ["A", "W", "bias", "alpha"].map(str::to_owned);
        let named: Arguments = names.into_iter().zip(arguments(&a, &w, &bias)).collect();
        let of = |threads| compiled(threads).run(&named, &Sizes::new()).unwrap();
        let (one, two) = (of(1), of(2));
        assert_eq!(one["D"].bytes(), two["D"].bytes(), "{m} rows");
        // The last row alone.
        let last = arguments(&a[(m - 1) * k..], &w, &bias);
        let names = ["A", "W", "bias", "alpha"].map(str::to_owned);
        let alone = compiled(1).run(&names.into_iter().zip(last).collect(), &Sizes::new()).unwrap();
        assert_eq!(alone["D"].bytes(), &one["D"].bytes()[(m - 1) * n * 4..], "{m} rows");
    }
}

type Change = fn(&mut Arguments<'static>, &mut Vec<Tensor>);

/// Every way to call a kernel wrongly, and a part of what the error says.
#[test]
fn a_call_that_does_not_fit_is_an_error_on_every_backend() {
    let kernel = Kernel::parse(
        "kernel k(A: bf16[M, K], W: bf16[N, K], s: f32) -> D: f32[M, N] { D = s * (A @ W.T) }",
    );
    let kernel = kernel.unwrap();
    let zeros = |dtype, shape: [usize; 2]| Argument::from(Tensor::zeros(dtype, shape).unwrap());
    let good = || {
        Arguments::from([
            ("A".to_owned(), zeros(DType::BF16, [4, 8])),
            ("W".to_owned(), zeros(DType::BF16, [6, 8])),
            ("s".to_owned(), 1.0.into()),
        ])
    };
    let changes: [(Change, &str); 11] = [
        (|a, _| _ = a.remove("A"), "`A` is missing"),
        (|a, _| _ = a.insert("B".to_owned(), 1.0.into()), "no input `B`"),
        (
            |a, _| _ = a.insert("s".to_owned(), Tensor::zeros(DType::F32, []).unwrap().into()),
            "`s` is a scalar",
        ),
        (|a, _| _ = a.insert("W".to_owned(), 1.0.into()), "`W` is a tensor"),
        (
            |a, _| _ = a.insert("A".to_owned(), Tensor::zeros(DType::F32, [4, 8]).unwrap().into()),
            "declared bf16",
        ),
        (
            |a, _| _ = a.insert("A".to_owned(), Tensor::zeros(DType::BF16, [3, 8]).unwrap().into()),
            "size 3 along `M`",
        ),
        (
            |a, _| _ = a.insert("A".to_owned(), Tensor::zeros(DType::BF16, [4]).unwrap().into()),
            "with 2 dims",
        ),
        (|_, d| d.clear(), "0 were given"),
        (|_, d| d.push(d[0].clone()), "2 were given"),
        (|_, d| d[0] = Tensor::zeros(DType::BF16, [4, 6]).unwrap(), "declared f32"),
        (
            |_, d| d[0] = Tensor::with_strides(DType::F32, [4, 6], [0, 1], 0, vec![0; 24]).unwrap(),
            "share memory",
        ),
    ];
    for backend in [Backend::Reference, Backend::Cpu, Backend::Sim, Backend::Cuda] {
        let compiled = kernel.compile(&Options { backend, ..Options::default() });
        let problem = compiled.bind(&good(), &Sizes::new()).unwrap();
        for (change, wanted) in &changes {
            let (mut arguments, mut outputs) = (good(), compiled.outputs(&problem).unwrap());
            change(&mut arguments, &mut outputs);
            let error = compiled.run_into(&problem, &arguments, &mut outputs).unwrap_err();
            assert!(error.to_string().contains(wanted), "{backend:?}: {error}");
        }
        let other =
            Kernel::parse("kernel o(A: f32[N, K], W: f32[K, M]) -> D: f32[N, M] { D = A @ W }");
        let other = other.unwrap().compile(&Options::default());
        let foreign = other.problem(&sizes(4, 6, 8)).unwrap();
        let mut outputs = compiled.outputs(&problem).unwrap();
        let error = compiled.run_into(&foreign, &good(), &mut outputs).unwrap_err();
        assert!(error.to_string().contains("another kernel"), "{backend:?}: {error}");
    }
}

#[test]
fn prepared_calls_are_validated_too() {
    let compiled = compiled(1);
    let prepared = compiled.prepare(&compiled.problem(&sizes(2, 3, 4)).unwrap()).unwrap();
    let (a, w, bias) = (numbers(8), numbers(12), numbers(3));
    let good = arguments(&a, &w, &bias);
    let (mut d, mut peak) = ([0.0f32; 6], [0.0f32; 2]);
    let mut error = |inputs: &[Argument<'_>], columns: usize| {
        let d = TensorViewMut::new(&mut d[..2 * columns], [2, columns]).unwrap();
        let peak = TensorViewMut::new(&mut peak, [2]).unwrap();
        prepared.run(inputs, &mut [d, peak]).err().map(|error| error.to_string())
    };
    assert_eq!(error(&good, 3), None);
    assert!(error(&good[..3], 3).unwrap().contains("takes 4 inputs, and 3 were given"));
    assert!(error(&good, 2).unwrap().contains("size 2 along `N`"));
    let mut swapped = good.clone();
    swapped.swap(0, 1);
    assert!(error(&swapped, 3).unwrap().contains("along `M`"));
}
