//! `postlude emit`: a kernel's code for a GPU, or what an assembler says about it.

use postlude::runtime::{CompileLog, Usage};
use postlude::target::{ENTRY, Schedule};

use crate::arguments::{CodeTarget, EmitArguments};
use crate::bindings::Loaded;
use crate::failure::{Failure, Outcome};
use crate::launches::Launches;
use crate::print;
use crate::tools::{Assembled, Tool};
use crate::{diagnose, launch};

/// Runs the command.
pub(crate) fn emit(arguments: &EmitArguments) -> Result<Outcome, Failure> {
    let CodeTarget::Sm90 = arguments.target;
    let loaded = Loaded::read(&arguments.source)?;
    let options = loaded.options(&arguments.compile)?;
    let compiled = loaded.kernel.compile(&options);
    let launches = Launches::of(&loaded, &compiled, &arguments.compile)?;
    let chosen = launches.chosen(arguments.launch_number)?;
    let last = *chosen.last().expect("compiler bug: a kernel without a launch");
    if let (Some(title), None) = (last.title(), arguments.launch_number) {
        let fix = "`--launch-number 1` emits the first one";
        diagnose::warn_without_place(
            &format!("the kernel takes several launches; this is {title}"),
            fix,
        );
    }
    let problem = last.problem(&loaded, &options, true);
    let planned = problem.planned()?.limited(arguments.grid_limit);
    let entry = planned.emit(options.math);
    let text = entry.to_string();
    let printed = if arguments.launch {
        launch::emitted(&loaded, &problem, &planned, &entry.regions)?
    } else if arguments.stats {
        let assembled = Assembled::new(&text)?;
        let instructions = entry.instructions().count();
        stats(&planned.schedule(), &CompileLog::new(assembled.log), instructions)?
    } else if arguments.sass {
        Assembled::new(&text)?.sass()?
    } else {
        text
    };
    print::text(&printed)?;
    Ok(Outcome::Fine)
}

/// What the code takes of an SM.
fn stats(schedule: &Schedule, log: &CompileLog, instructions: usize) -> Result<String, Failure> {
    let Usage { registers, stack_bytes, spill_stores, spill_loads } =
        log.usage(ENTRY).ok_or_else(|| Tool::Ptxas.broken(log.text().trim()))?;
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![
        row("registers", registers.to_string()),
        row("spills", format!("{spill_stores} bytes stored, {spill_loads} bytes loaded")),
        row("stack", format!("{stack_bytes} bytes")),
        row("shared memory", format!("{} bytes", schedule.shared_bytes())),
        row("instructions", format!("{instructions} of PTX")),
    ];
    if log.serialises_products() {
        rows.push(row("warning", "products wait for one another (C7510)".to_owned()));
    }
    Ok(print::table(&rows))
}
