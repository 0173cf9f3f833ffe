//! Tuning on a GPU: what is measured is kept, is right, and is taken by later calls.

use std::collections::HashSet;
use std::time::Duration;

use postlude::tuning::{Records, TuneOptions};
use postlude::{Arguments, Bindings, DType, Kernel, Options, Sizes, Tensor};
use postlude_corpus::Random;

use crate::device;

fn tensor(random: &mut Random, shape: [usize; 2]) -> Tensor {
    let values: Vec<f64> = (0..shape[0] * shape[1]).map(|_| random.whole()).collect();
    Tensor::from_values(DType::BF16, shape, &values).unwrap()
}

#[test]
fn gpu_a_tuned_kernel_takes_its_fastest_schedule_and_computes_the_same() {
    let Some((_device, _alone)) = device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let records = Records::At(folder.path().join("tuned.jsonl"));
    // One launch, and two.
    for (source, sizes) in
        [("D = relu(A @ W.T)", [64, 1024, 512]), ("D = softmax(A @ W.T, N)", [512, 4096, 256])]
    {
        let kernel = Kernel::infer(source, &Bindings::default()).unwrap();
        let compiled = kernel.compile(&Options { records: records.clone(), ..Options::default() });
        let [m, n, k] = sizes;
        let mut random = Random::new(7);
        let arguments = Arguments::from([
            ("A".to_owned(), tensor(&mut random, [m, k]).into()),
            ("W".to_owned(), tensor(&mut random, [n, k]).into()),
        ]);
        let problem = compiled.bind(&arguments, &Sizes::new()).unwrap();
        let budget = Duration::from_secs(3);
        let options = TuneOptions { budget, ..TuneOptions::default() };
        let tuned = compiled.tune(&problem, &arguments, &options).unwrap();
        assert!(!tuned.stopped && tuned.not_kept.is_none(), "{source}: {tuned:?}");
        assert_eq!(tuned.file, records.file());
        assert!(!tuned.launches.is_empty(), "{source}");
        for launch in &tuned.launches {
            assert!(launch.refused.is_empty(), "{source}: {:?}", launch.refused);
            assert!(launch.measured.len() > 1 && launch.planned().is_some(), "{source}");
            let different: HashSet<_> = launch.measured.iter().map(|it| &it.schedule).collect();
            assert_eq!(different.len(), launch.measured.len(), "{source}");
        }
        let chosen = tuned.launches.last().and_then(|launch| launch.chosen()).unwrap();
        assert_eq!(compiled.gpu_schedule(&problem, &arguments).unwrap(), chosen.schedule);
        let mut outputs = compiled.outputs(&problem).unwrap();
        let on_gpu = compiled.on(postlude::Backend::Cuda);
        on_gpu.run_into(&problem, &arguments, &mut outputs).unwrap();
        let extent = postlude::Extent::Sample;
        let found = compiled.check_extent(&problem, &arguments, &outputs, extent, &|_, _| {});
        assert!(found.unwrap().iter().all(|output| output.wrong == 0), "{source}");
    }
}

#[test]
fn gpu_tuning_that_is_stopped_at_once_keeps_nothing() {
    let Some((_device, _alone)) = device() else { return };
    let folder = tempfile::tempdir().unwrap();
    let records = Records::At(folder.path().join("tuned.jsonl"));
    let kernel = Kernel::infer("D = A @ W.T", &Bindings::default()).unwrap();
    let compiled = kernel.compile(&Options { records: records.clone(), ..Options::default() });
    let mut random = Random::new(8);
    let arguments = Arguments::from([
        ("A".to_owned(), tensor(&mut random, [64, 128]).into()),
        ("W".to_owned(), tensor(&mut random, [256, 128]).into()),
    ]);
    let problem = compiled.bind(&arguments, &Sizes::new()).unwrap();
    let options = TuneOptions { stop: &|| true, ..TuneOptions::default() };
    let tuned = compiled.tune(&problem, &arguments, &options).unwrap();
    assert!(tuned.stopped && tuned.launches.is_empty(), "{tuned:?}");
    assert!(records.file().is_some_and(|file| !file.exists()));
}
