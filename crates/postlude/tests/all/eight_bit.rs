//! Products of 8-bit operands in the simulator: an operand dtype is one more element, and nothing else of a kernel changes.
//!
//! Small whole numbers, so that every sum is exact whatever the tensor core's fractional bits.

use postlude::placement::Placements;
use postlude::target::Chip;
use postlude::{Argument, Arguments, DType, Kernel, MathMode, Options, Sizes, Tensor};
use postlude_corpus::Random;

#[test]
fn a_plain_product_of_e4m3_is_right_on_every_tile_that_takes_it() {
    let source = "kernel k(A: f8e4m3[M, K], W: f8e4m3[N, K], bias: f32[N]) -> D: f32[M, N] { D = relu(A @ W.T + bias) }";
    let kernel = Kernel::parse(source).expect("it types");
    let compiled = kernel.compile(&Options::default());
    for [m, n, k] in [[64, 128, 128], [200, 176, 272], [130, 264, 400]] {
        let sizes = [("M", m), ("N", n), ("K", k)].map(|(dim, size)| (dim.to_owned(), size));
        let problem = compiled.problem(&Sizes::from(sizes)).expect("sizes of every dim");
        let mut random = Random::new((m + k) as u64);
        let mut tensor = |dtype, shape: Vec<usize>| {
            let count = shape.iter().product::<usize>();
            let values: Vec<f64> = (0..count).map(|_| random.below(5) as f64 - 2.0).collect();
            Argument::Tensor(Tensor::from_values(dtype, shape, &values).expect("it fits"))
        };
        let arguments = Arguments::from([
            ("A".to_owned(), tensor(DType::F8E4M3, vec![m, k])),
            ("W".to_owned(), tensor(DType::F8E4M3, vec![n, k])),
            ("bias".to_owned(), tensor(DType::F32, vec![n])),
        ]);
        let mut wanted = compiled.outputs(&problem).expect("it has a shape");
        compiled.run_into(&problem, &arguments, &mut wanted).expect("the processor runs it");
        let placements = Placements::packed(compiled.optimised(), &problem);
        let refused = compiled.planning(&problem, &placements, Chip::STANDARD);
        let refused = refused.expect("it is one launch").best().expect_err("it is not exact");
        assert!(refused.to_string().contains("f8e4m3"), "{refused}");
        let chip = Chip::STANDARD.with_eight_bit_operands();
        let planning = compiled.planning(&problem, &placements, chip).expect("it is one launch");
        let schedules = planning.every().expect("it is not refused");
        assert!(schedules.len() > 20, "{}", schedules.len());
        for schedule in schedules.iter().step_by(7) {
            assert_eq!(schedule.knob("tile").map(|tile| tile.ends_with("x 128")), Some(true));
            let planned = planning.accept(schedule).expect("it fits");
            let entry = planned.emit(MathMode::Default);
            let launch = planned.launch(&[None; 3]);
            let bytes =
                |name: &str| arguments[name].tensor().map_or(Vec::new(), |it| it.bytes().to_vec());
            let mut buffers = ["A", "W", "bias"].map(bytes).to_vec();
            buffers.push(vec![0xff; m * n * 4]);
            let options =
                postlude_sim::Options { regions: entry.regions.clone(), ..Default::default() };
            let report = postlude_sim::run(&entry.to_string(), &launch, &mut buffers, &options);
            let report = report.unwrap_or_else(|error| panic!("{error}\n{schedule}"));
            assert!(report.findings.is_empty() && report.finished, "{schedule}");
            assert_eq!(buffers[3], wanted[0].bytes(), "{schedule}");
        }
    }
}
