//! What the system does not give: memory and threads. Each is an error that says so and how to go on; none is an abort. (Threads are limited for users
//! other than root alone, so that no test takes them away.)

use super::{Ended, command};

/// The command under a limit of the shell: `ulimit -v 1000000`.
fn limited(limit: &str, arguments: &[&str]) -> Ended {
    let own = command(arguments);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")]);
    shell.arg(own.get_program()).args(own.get_args());
    shell.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ended::of(&shell.output().expect("a shell"))
}

#[test]
fn memory_that_the_process_may_not_have_is_an_error() {
    for sizes in ["M=10000000,N=10000000,K=1", "M=20000,N=20000,K=1", "M=30000,N=4000,K=30000"] {
        for backend in ["cpu", "reference", "sim"] {
            let run = ["run", "D = A @ B", "--size", sizes, "--backend", backend];
            let errors = limited("-v 400000", &run).mistake();
            assert!(errors.contains("memory"), "{sizes} {backend}: {errors}");
            assert!(errors.contains("help: make the sizes smaller"), "{sizes} {backend}: {errors}");
        }
    }
}
