//! The text of a program in sweeps: a node a line, with the sweeps that compute it.
//!
//! In: a program. Out: its text, which reads back. What stands before a node follows from the graph, so reading checks it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::graph::{self, NodeId, output_text};
use crate::lower::text::TileTextError;

use super::{Sweep, SweepProgram};

impl SweepProgram {
    /// The sweeps of which something holds, counted from 1.
    fn numbers(&self, holds: impl Fn(&Sweep) -> bool) -> Option<String> {
        let such = self.sweeps.iter().zip(1..).filter(|(sweep, _)| holds(sweep));
        let numbers: Vec<String> = such.map(|(_, number)| number.to_string()).collect();
        (!numbers.is_empty()).then(|| numbers.join(","))
    }

    /// What computes a node, and in which sweeps.
    fn part(&self, id: NodeId) -> String {
        let folds = |sweep: &Sweep| {
            let mut all = sweep.reductions.iter().flat_map(|one| self.members(*one));
            all.any(|member| member.node == id)
        };
        let parts = [
            ("reduce", self.numbers(folds)),
            ("before", self.numbers(|sweep| sweep.before.contains(&id))),
            ("row", self.numbers(|sweep| sweep.kept.contains(&id))),
            ("visit", self.numbers(|sweep| sweep.visit.contains(&id))),
        ];
        let part = parts.into_iter().find_map(|(word, numbers)| Some((word, numbers?)));
        part.map_or("unused".to_owned(), |(word, numbers)| format!("{word} {numbers}"))
    }
}

impl fmt::Display for SweepProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let graph = self.graph.with_plain_inputs();
        writeln!(f, "sweep program {} {{", graph.signature_text())?;
        graph.write_frame(f)?;
        for (id, node) in graph.nodes() {
            let (part, text, ty) = (self.part(id), graph.node_text(id), graph.type_text(node.ty));
            writeln!(f, "    {part:<10} {text:<38} # {ty}")?;
        }
        for (place, output) in graph.outputs().iter().enumerate() {
            let stores = self.numbers(|sweep| sweep.stores.contains(&place));
            let part = stores.map_or("finish".to_owned(), |number| format!("store {number}"));
            writeln!(f, "    {part:<10} {}", output_text(output))?;
        }
        writeln!(f, "}}")
    }
}

impl FromStr for SweepProgram {
    type Err = TileTextError;

    fn from_str(text: &str) -> Result<SweepProgram, TileTextError> {
        // Lines keep their numbers, so that errors of the graph name them.
        let lines: Vec<String> = text.lines().map(|line| as_of_graph(code(line))).collect();
        let first = text.lines().map(code).find(|code| !code.is_empty()).unwrap_or_default();
        if !first.starts_with("sweep program ") {
            return Err(TileTextError::Bracket("sweep program"));
        }
        let program = SweepProgram::new(&Arc::new(graph::parse(&lines.join("\n"))?));
        let printed = program.to_string();
        let written = (1..).zip(text.lines().map(code)).filter(|(_, code)| !code.is_empty());
        let mut both = written.zip(printed.lines().map(code));
        match both.find(|((_, written), wanted)| written != wanted) {
            Some(((line, _), wanted)) => {
                Err(TileTextError::Sweep { line, wanted: wanted.to_owned() })
            }
            None => Ok(program),
        }
    }
}

/// A line without its comment.
fn code(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

/// The line of a graph that a line of a program is.
fn as_of_graph(code: &str) -> String {
    let (word, rest) = code.split_once(' ').unwrap_or((code, ""));
    match word {
        "sweep" => code.replacen("sweep program ", "graph ", 1),
        "store" | "finish" => {
            let output = rest.trim_start_matches(|of: char| of == ' ' || of.is_ascii_digit());
            format!("output {output}")
        }
        "reduce" | "before" | "row" | "visit" | "unused" => {
            rest.find('v').map_or(code.to_owned(), |at| rest[at..].to_owned())
        }
        _ => code.to_owned(),
    }
}
