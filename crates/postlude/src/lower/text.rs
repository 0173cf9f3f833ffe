//! The text of a tile program: a node a line, with the part of the kernel that computes it.
//!
//! In: a program. Out: its text, which reads back. A line is a word for its part, the node as a graph prints it, and its
//! type behind `#`. The parts follow from the graph, so reading checks them.

use std::fmt;
use std::str::FromStr;

use crate::graph::{self, GraphTextError, Kind, NodeId, Op, Output, output_text};

use super::program::TileProgram;
use super::reductions::{Batches, Reduction, Source};
use super::refusal::LowerRefusal;
use super::refuse::refuse;
use super::views::Views;

/// Why a text is not a tile program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TileTextError {
    /// The first or last line is missing.
    #[error("a {0} begins with `{0} NAME(...) {{` and ends with `}}`")]
    Bracket(&'static str),
    /// A node, product or store that is none.
    #[error(transparent)]
    Graph(#[from] GraphTextError),
    /// A view of a tensor that is none.
    #[error("line {line}: `{text}` is no view")]
    View {
        /// Counted from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// What no launch computes.
    #[error(transparent)]
    Refused(#[from] LowerRefusal),
    /// A line that no program in sweeps with the same nodes has.
    #[error("line {line} is `{wanted}`")]
    Sweep {
        /// Counted from 1.
        line: usize,
        /// What has to stand there.
        wanted: String,
    },
    /// A line that says another part than the kernel's.
    #[error("line {line}: `{node}` belongs to `{part}`")]
    Part {
        /// Counted from 1.
        line: usize,
        /// The node.
        node: String,
        /// What computes it.
        part: String,
    },
}

impl TileProgram {
    /// The part of a kernel that computes a node.
    fn part(&self, id: NodeId) -> String {
        let graph = self.graph();
        let folds = |all: &[Reduction]| {
            let is = |one: &Reduction| one.node == id || graph.supplies(one.node, id);
            all.iter().any(is)
        };
        if !self.live[id.index()] {
            return "unused".to_owned();
        }
        if self.by_elements {
            let own = if self.is_computed(id) { "element" } else { "convert" };
            return own.to_owned();
        }
        if let Some(pass) = self.row_passes.iter().position(|pass| folds(pass)) {
            return format!("pass {}", pass + 1);
        }
        if let Some(pass) = self.block_passes.iter().position(|pass| folds(pass)) {
            return format!("block {}", pass + 1);
        }
        let part = if folds(&self.run_reductions) {
            "run"
        } else if folds(&self.reductions) {
            "reduce"
        } else if self.after_reductions[id.index()] {
            "finish"
        } else if !self.is_computed(id) {
            "convert"
        } else if matches!(graph[id].op, Op::Input(_)) {
            "load"
        } else {
            match graph.ty(id).axes.kind() {
                Kind::Tile => "visit",
                Kind::AlongRows => "row",
                Kind::AlongColumns => "column",
                Kind::Scalar => "scalar",
            }
        };
        part.to_owned()
    }

    /// What a reader wants to know of a node beside its type.
    fn remark(&self, id: NodeId) -> String {
        let all = self.reductions.iter().find(|reduction| reduction.node == id);
        let Some(reduction) = all else { return String::new() };
        let of = match reduction.source {
            Source::Elements => "lane > quad > warpgroup > grid",
            Source::Rows => "row > warpgroup > grid",
            Source::Finished(_) => "second stage > grid",
        };
        match reduction.scope.batches {
            Batches::Each => format!(", scope {of}"),
            Batches::All => format!(", scope {of} > batch"),
        }
    }

    /// An output and what it is of the kernel's.
    fn store(&self, place: usize, output: &Output) -> String {
        let view =
            self.views().output_line(place).map_or(String::new(), |view| format!(" as {view}"));
        output_text(output) + &view
    }
}

impl fmt::Display for TileProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let graph = self.graph();
        writeln!(f, "tile program {} {{", graph.signature_text())?;
        for view in self.views().input_lines(graph) {
            writeln!(f, "    view {view}")?;
        }
        graph.write_frame(f)?;
        for (id, node) in graph.nodes() {
            let (part, text, ty) = (self.part(id), graph.node_text(id), graph.type_text(node.ty));
            writeln!(f, "    {part:<8} {text:<38} # {ty}{}", self.remark(id))?;
        }
        for (place, output) in graph.outputs().iter().enumerate() {
            writeln!(f, "    store    {}", self.store(place, output))?;
        }
        writeln!(f, "}}")
    }
}

impl FromStr for TileProgram {
    type Err = TileTextError;

    fn from_str(text: &str) -> Result<TileProgram, TileTextError> {
        // Lines keep their numbers, so that errors of the graph name them.
        let mut lines = Vec::new();
        let (mut input_views, mut output_views, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let code = line.split('#').next().unwrap_or_default().trim();
            let (word, rest) = code.split_once(' ').unwrap_or((code, ""));
            lines.push(match word {
                "tile" => code.replacen("tile program ", "graph ", 1),
                "view" => {
                    input_views.push((number, rest.to_owned()));
                    String::new()
                }
                "store" => {
                    let (output, view) = rest.split_once(" as ").unwrap_or((rest, ""));
                    output_views.push((number, view.to_owned()));
                    format!("output {}", output.trim())
                }
                "" | "}" | "product" | "space" | "split" => code.to_owned(),
                _ => {
                    let (part, node) = code.split_once(" v").unwrap_or((code, ""));
                    parts.push((number, part.trim().to_owned()));
                    format!("v{node}")
                }
            });
        }
        if !lines.first().is_some_and(|line| line.starts_with("graph ")) {
            return Err(TileTextError::Bracket("tile program"));
        }
        let graph = graph::parse(&lines.join("\n"))?;
        let views = Views::read(&graph, &input_views, &output_views)
            .map_err(|(line, text)| TileTextError::View { line, text })?;
        let computed = parts.iter().take_while(|(_, part)| part != "convert").count();
        let by_elements = parts.iter().any(|(_, part)| part == "element");
        let program = if by_elements {
            TileProgram::by_elements(graph, views, computed)
        } else {
            TileProgram::assembled(graph, views, computed)
        };
        for ((id, _), (line, written)) in program.graph().nodes().zip(parts) {
            let part = program.part(id);
            if part != written {
                return Err(TileTextError::Part { line, node: id.to_string(), part });
            }
        }
        if !by_elements {
            refuse(&program)?;
        }
        Ok(program.with_swapped())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::define::defined;
    use crate::lower::{Lowered, lower};

    #[test]
    fn every_part_of_a_kernel_has_its_word_and_the_text_reads_back() {
        let signature = "kernel k(A: bf16[M, K], W: bf16[N, K], b: f32[N], t: i32[M])";
        for (outputs, body, words) in [
            ("D: bf16[M, N]", "D = softmax(A @ W.T + b, N)", "load visit pass store"),
            (
                "(D: i8[M, N], s: f32[])",
                "z = A @ W.T\n D = i8(z)\n s = mean(max(z, N))",
                "visit convert reduce finish",
            ),
            (
                "D: bf16[M, N/2]",
                "g, u = halves(A @ W.T + b)\n D = silu(g) * u",
                "view load visit store",
            ),
            (
                "(D: f32[M, N/8], l: f32[])",
                "z = A @ W.T\n D = max(z, N, 8)\n l = mean(logsumexp(z, N) - pick(z, t))",
                "run reduce finish",
            ),
            (
                "(X: bf16[M, Q], s: f32[M])",
                "q, k = split(A @ W.T + b, [Q, R])\n X = q\n s = mean(k, R)",
                "view load visit reduce finish store",
            ),
            (
                "D: bf16[M, N]",
                "x, y = halves(A @ W.T + b, 32)\n D = concat(y, -x, 32)",
                "view load visit store",
            ),
        ] {
            let program = lower(&defined(&format!("{signature} -> {outputs} {{ {body} }}")));
            let program = program.expect("it is one launch");
            let text = program.to_string();
            for word in words.split(' ') {
                assert!(text.lines().any(|line| line.trim().starts_with(word)), "{word}\n{text}");
            }
            assert_eq!(text.parse::<TileProgram>(), Ok(program), "{text}");
        }
    }

    #[test]
    fn a_program_by_elements_that_splits_columns_reads_back() {
        let source = "kernel k(X: f32[M, N]) -> D: f32[M, Q] { q, r = split(X, [Q, R])\n D = q * sum(r, R) }";
        let lowered = Lowered::by_elements(&Arc::new(defined(source))).expect("it has no product");
        let program = lowered.program().expect("it is lowered");
        let text = program.to_string();
        assert!(text.contains("split N into Q, R"), "{text}");
        assert_eq!(text.parse::<TileProgram>().as_ref(), Ok(&**program), "{text}");
    }

    #[test]
    fn a_node_in_another_part_is_named_with_its_line() {
        let program = lower(&defined("s = sum(A @ W.T)")).expect("it is one launch");
        let text = program.to_string();
        let place = text.lines().position(|line| line.contains("reduce ")).expect("a reduction");
        let wrong = text.replacen("    reduce ", "    finish ", 1);
        let error = wrong.parse::<TileProgram>().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("line {}: ", place + 1)) && error.ends_with("`reduce`"),
            "{error}"
        );
        let split = "tile program k(A: bf16[M, K], W: bf16[N, K]) {\n product A @ W.T\n visit v0 = accumulator\n visit v1 = first_half v0\n store D: f32[M, N/2] = v1\n}";
        assert!(matches!(split.parse::<TileProgram>(), Err(TileTextError::Refused(_))));
        assert_eq!("".parse::<TileProgram>(), Err(TileTextError::Bracket("tile program")));
        assert!("tile program k(A: bf16[M, K]) {\n  nothing\n}".parse::<TileProgram>().is_err());
    }
}
