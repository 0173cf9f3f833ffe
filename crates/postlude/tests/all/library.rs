//! Every kernel of the library types, and every stage of it prints text that reads back.

mod hopper;

use std::fs;
use std::path::Path;

use postlude::{Kernel, Options, Problem, Sizes, graph, problem, syntax};

pub(crate) fn sources() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels");
    let mut sources: Vec<(String, String)> = fs::read_dir(folder)
        .expect("the kernel library is there")
        .map(|entry| entry.expect("a readable folder").path())
        .map(|path| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            (stem, fs::read_to_string(&path).expect("a readable kernel"))
        })
        .collect();
    sources.sort();
    assert!(sources.len() > 100, "found {} kernels", sources.len());
    sources
}

fn kernel(name: &str, source: &str) -> Kernel {
    Kernel::parse(source).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_kernel_has_the_name_of_its_file_and_a_description() {
    for (name, source) in sources() {
        assert_eq!(kernel(&name, &source).name(), name);
        let first = source.lines().next().unwrap_or_default();
        assert!(first.starts_with("# ") && first.len() > 10, "{name}: {first}");
    }
}

#[test]
fn printed_trees_read_back() {
    for (name, source) in sources() {
        let ast = kernel(&name, &source).ast().clone();
        assert_eq!(syntax::parse(&ast.to_string()).as_ref(), Ok(&ast), "{name}");
    }
}

#[test]
fn printed_graphs_read_back() {
    for (name, source) in sources() {
        let kernel = kernel(&name, &source);
        let compiled = kernel.compile(&Options::default());
        for graph in [kernel.checked(), kernel.defined(), compiled.optimised()] {
            assert_eq!(graph::parse(&graph.to_string()).as_ref(), Ok(graph), "{name}");
        }
    }
}

#[test]
fn printed_schedules_read_back() {
    for (name, source) in sources() {
        let compiled = kernel(&name, &source).compile(&Options::default());
        let names = problem::dim_names(compiled.defined());
        // The columns of a split are as many as its parts together.
        let is_split = names.contains(&"KV");
        let sizes: Sizes = names
            .into_iter()
            .filter(|dim| *dim != "N" || !is_split)
            .map(|dim| (dim.to_owned(), 256))
            .collect();
        let problem = Problem::new(compiled.defined(), &sizes)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let schedule =
            compiled.schedule(&problem).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(schedule.to_string().parse().as_ref(), Ok(&schedule), "{name}");
    }
}
