//! The product against a plain triple loop.

use super::*;
use crate::cpu::decode::decode_as;
use crate::dtype::DType;

/// A stored matrix and how to walk it.
struct Stored {
    dtype: DType,
    bytes: Vec<u8>,
    offset: isize,
    row_stride: isize,
    column_stride: isize,
}

/// How a matrix of `rows` by `columns` lies in memory.
#[derive(Clone, Copy, Debug)]
enum Walk {
    Rows,
    Transposed,
    Padded,
    Backward,
    SameRow,
    SameColumn,
    EveryThird,
}

const WALKS: [Walk; 7] = [
    Walk::Rows,
    Walk::Transposed,
    Walk::Padded,
    Walk::Backward,
    Walk::SameRow,
    Walk::SameColumn,
    Walk::EveryThird,
];

const OPERANDS: [DType; 7] =
    [DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2, DType::I8, DType::U8];

/// A sequence of bits that repeats only after 2^64.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }
}

impl Stored {
    fn new(dtype: DType, walk: Walk, rows: usize, columns: usize, bits: &mut Bits) -> Stored {
        let (r, c) = (rows as isize, columns as isize);
        let (offset, row_stride, column_stride) = match walk {
            Walk::Rows => (0, c, 1),
            Walk::Transposed => (0, 1, r),
            Walk::Padded => (5, c + 3, 1),
            Walk::Backward => ((r * c - 1).max(0), -c, -1),
            Walk::SameRow => (1, 0, 1),
            Walk::SameColumn => (2, 1, 0),
            Walk::EveryThird => (0, 3 * c, 3),
        };
        let bytes =
            (0..3 * rows * columns + 3 * rows + 8).flat_map(|_| element(dtype, bits)).collect();
        Stored { dtype, bytes, offset, row_stride, column_stride }
    }

    fn operand(&self) -> Operand<'_> {
        let Stored { dtype, ref bytes, offset, row_stride, column_stride } = *self;
        Operand { dtype, bytes, offset, row_stride, column_stride }
    }

    fn value(&self, row: usize, column: usize) -> f64 {
        let at =
            self.offset + row as isize * self.row_stride + column as isize * self.column_stride;
        let size = self.dtype.bits() / 8;
        f64::from(decode_as(self.dtype, &self.bytes[at as usize * size..][..size]))
    }
}

/// One finite element between -2 and 2, or any byte of an integer type.
fn element(dtype: DType, bits: &mut Bits) -> Vec<u8> {
    let random = bits.next();
    let float = (random % 4096) as f32 / 1024.0 - 2.0;
    match dtype {
        DType::F32 | DType::TF32 => float.to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f32(float).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f32(float).to_le_bytes().to_vec(),
        // Exponents up to that of 1.0, both signs.
        DType::F8E4M3 => vec![(random % 64) as u8 | (random >> 8) as u8 & 0x80],
        DType::F8E5M2 => vec![(random % 64) as u8 | (random >> 8) as u8 & 0x80],
        DType::I8 | DType::U8 => vec![random as u8],
        DType::F8E8M0
        | DType::I32
        | DType::I64
        | DType::Bool
        | DType::B1
        | DType::I4
        | DType::U4 => {
            unreachable!("no operand")
        }
    }
}

/// The whole result, put together from its regions; each element must be seen once.
fn collect<T: Accumulator>(
    product: &Product<'_>,
    regions: Regions,
    scratch: &mut Scratch<T>,
) -> Vec<T> {
    let (m, n) = (product.a.rows(), product.b.rows());
    let seen = Mutex::new(vec![None; m * n]);
    for_each_region(
        product,
        regions,
        rayon::current_num_threads(),
        scratch,
        |region, accumulators| {
            assert_eq!(accumulators.len(), region.rows.len() * region.columns.len());
            assert!(region.rows.len() <= regions.height && region.columns.len() <= regions.width);
            let mut seen = seen.lock().unwrap();
            for (row, line) in region.rows.clone().zip(accumulators.chunks(region.columns.len())) {
                for (column, value) in region.columns.clone().zip(line) {
                    assert!(seen[row * n + column].replace(*value).is_none(), "seen twice");
                }
            }
        },
    );
    seen.into_inner()
        .unwrap()
        .into_iter()
        .map(|value| value.expect("a region is missing"))
        .collect()
}

const WHOLE: Regions = Regions { height: usize::MAX, width: usize::MAX };

/// Checks one product against the triple loop: integers exactly, floats within `gamma_k` of the sum of magnitudes.
fn check(a: &Stored, b: &Stored, [m, n, k]: [usize; 3], regions: Regions) {
    let product = Product::new(a.operand(), b.operand(), [m, n, k]).unwrap();
    let row = |index: usize, of: &Stored| (0..k).map(|k| of.value(index, k)).collect::<Vec<_>>();
    let (a, b): (Vec<_>, Vec<_>) =
        ((0..m).map(|r| row(r, a)).collect(), (0..n).map(|r| row(r, b)).collect());
    let results: Vec<f64> = match product.accumulator() {
        Elem::F32 => collect(&product, regions, &mut Scratch::<f32>::new())
            .into_iter()
            .map(f64::from)
            .collect(),
        Elem::I32 => collect(&product, regions, &mut Scratch::<i32>::new())
            .into_iter()
            .map(f64::from)
            .collect(),
        Elem::Bool => unreachable!("no accumulator"),
    };
    for (index, result) in results.into_iter().enumerate() {
        let terms = || a[index / n].iter().zip(&b[index % n]).map(|(a, b)| a * b);
        let unit = k as f64 * f64::from(f32::EPSILON) / 2.0;
        let exact = product.accumulator() == Elem::I32;
        let bound =
            if exact { 0.0 } else { unit / (1.0 - unit) * terms().map(f64::abs).sum::<f64>() };
        let wanted: f64 = terms().sum();
        assert!(
            (result - wanted).abs() <= bound,
            "{m}x{n}x{k} at {index}: {result}, wanted {wanted}"
        );
    }
}

#[test]
fn every_mix_of_sizes_is_right() {
    let mut bits = Bits(1);
    let sizes = [0, 1, 7, 33, 255];
    for m in sizes {
        for n in sizes {
            for k in [0, 1, 7, 33, 513] {
                let a = Stored::new(DType::F32, Walk::Rows, m, k, &mut bits);
                let b = Stored::new(DType::F32, Walk::Transposed, n, k, &mut bits);
                check(&a, &b, [m, n, k], WHOLE);
            }
        }
    }
    for [m, n, k] in [[513, 33, 255], [33, 513, 513], [1, 513, 1030], [513, 1, 1030]] {
        let a = Stored::new(DType::I8, Walk::Rows, m, k, &mut bits);
        let b = Stored::new(DType::U8, Walk::Rows, n, k, &mut bits);
        check(&a, &b, [m, n, k], Regions { height: 64, width: 100 });
    }
}

#[test]
fn every_walk_of_every_type_is_right() {
    let mut bits = Bits(2);
    let [m, n, k] = [35, 67, 41];
    for dtype in OPERANDS {
        for other in OPERANDS.into_iter().filter(|other| other.accumulator() == dtype.accumulator())
        {
            for walk in WALKS {
                let a = Stored::new(dtype, walk, m, k, &mut bits);
                let b = Stored::new(other, walk, n, k, &mut bits);
                check(&a, &b, [m, n, k], Regions { height: 16, width: 48 });
            }
        }
    }
}

#[test]
fn the_largest_integers_are_exact_and_sums_wrap() {
    for (dtype, byte) in [(DType::U8, 255), (DType::I8, 0x80)] {
        let k = 40000;
        let bytes = vec![byte; k];
        let operand = Operand { dtype, bytes: &bytes, offset: 0, row_stride: 0, column_stride: 1 };
        let product = Product::new(operand, operand, [3, 5, k]).unwrap();
        let square = if dtype == DType::U8 { 255 * 255 } else { 128 * 128 };
        let wanted = (square * k as i64) as i32;
        for level in Level::ALL {
            let mut scratch = Scratch::<i32>::with(level, Caches::default());
            assert_eq!(collect(&product, WHOLE, &mut scratch), vec![wanted; 15]);
        }
    }
}

#[test]
fn bits_depend_on_the_operands_alone() {
    let mut bits = Bits(3);
    let [m, n, k] = [131, 141, 777];
    let a = Stored::new(DType::F32, Walk::Padded, m, k, &mut bits);
    let b = Stored::new(DType::F32, Walk::Rows, n, k, &mut bits);
    let product = Product::new(a.operand(), b.operand(), [m, n, k]).unwrap();
    let mut wanted = vec![0f32; m * n];
    for (index, acc) in wanted.iter_mut().enumerate() {
        for k in 0..k {
            *acc = (a.value(index / n, k) as f32).mul_add(b.value(index % n, k) as f32, *acc);
        }
    }
    let tiny = Caches { l1: 8 << 10, l2: 16 << 10, l3: 32 << 10 };
    let shapes = [(1, usize::MAX), (usize::MAX, 1), (64, 64), (50, 77), (usize::MAX, usize::MAX)];
    for threads in [1, 2, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for level in Level::ALL {
            for caches in [Caches::default(), tiny] {
                let mut scratch = Scratch::<f32>::with(level, caches);
                for (height, width) in shapes {
                    let found =
                        pool.install(|| collect(&product, Regions { height, width }, &mut scratch));
                    assert!(found == wanted, "{threads} threads, {level:?}, {height} by {width}");
                }
            }
        }
    }
}

#[test]
fn scratch_keeps_nothing_of_an_earlier_product() {
    let mut bits = Bits(4);
    let mut scratch = Scratch::<f32>::new();
    for [m, n, k] in [[70, 90, 300], [3, 5, 0], [3, 5, 2], [80, 33, 17]] {
        let a = Stored::new(DType::F16, Walk::Rows, m, k, &mut bits);
        let b = Stored::new(DType::BF16, Walk::Rows, n, k, &mut bits);
        let product = Product::new(a.operand(), b.operand(), [m, n, k]).unwrap();
        let regions = Regions { height: 7, width: 40 };
        assert!(
            collect(&product, regions, &mut scratch)
                == collect(&product, regions, &mut Scratch::<f32>::new())
        );
    }
}

#[test]
fn a_product_larger_than_its_budget_is_cut_into_chunks() {
    let mut bits = Bits(5);
    let [m, n, k] = [1200, 75, 9];
    let a = Stored::new(DType::F32, Walk::Rows, m, k, &mut bits);
    let b = Stored::new(DType::F32, Walk::Rows, n, k, &mut bits);
    let product = Product::new(a.operand(), b.operand(), [m, n, k]).unwrap();
    let wanted = collect(&product, WHOLE, &mut Scratch::<f32>::new());
    let mut scratch = Scratch::<f32>::new();
    scratch.budget = Budget { a: 0, b: 2 * 32 * k };
    for (height, width) in [(1, 10), (3, 32), (16, 75)] {
        assert!(collect(&product, Regions { height, width }, &mut scratch) == wanted);
    }
}

#[test]
fn operands_that_cannot_be_multiplied_are_refused() {
    let bytes = [0; 64];
    let operand =
        |dtype, offset| Operand { dtype, bytes: &bytes, offset, row_stride: 4, column_stride: 1 };
    let extents = [4, 4, 4];
    let error = |a, b| Product::new(a, b, extents).err();
    assert_eq!(error(operand(DType::F32, 0), operand(DType::I8, 0)), Some(ProductError::Types));
    assert_eq!(error(operand(DType::I32, 0), operand(DType::I32, 0)), Some(ProductError::Types));
    assert_eq!(
        error(operand(DType::F32, 1), operand(DType::F32, 0)),
        Some(ProductError::OutOfBounds(Side::A))
    );
    assert_eq!(
        error(operand(DType::F16, 0), operand(DType::F32, -1)),
        Some(ProductError::OutOfBounds(Side::B))
    );
    assert_eq!(error(operand(DType::F32, 0), operand(DType::F16, 16)), None);
}
