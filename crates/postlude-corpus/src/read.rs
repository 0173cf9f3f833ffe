//! Reads literate cases.
//!
//! In: a file of the corpus. Out: its cases in order, or what is wrong with the first malformed one, with file and line.

mod keys;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use postlude::{DType, MathMode};

use crate::case::{Case, Expectation};
use crate::library::find_kernel;

/// What is wrong with a file of the corpus.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct ReadError {
    /// The file.
    pub file: String,
    /// The line, counted from 1; 0 when it is about the file.
    pub line: usize,
    /// What is wrong.
    pub problem: ReadProblem,
}

/// The kinds of mistakes in a case.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what each is.
pub enum ReadProblem {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("a code block is never closed")]
    OpenBlock,
    #[error("a code block before the first case")]
    Homeless,
    #[error("a case has one code block or one `kernel:`, and this is another")]
    SecondSource,
    #[error("the case has neither a code block nor a `kernel:`")]
    NoSource,
    #[error("the case expects nothing")]
    NoExpectation,
    #[error("a case that expects an error cannot expect anything else")]
    ErrorAndResult,
    #[error("the title `{0}` is already taken in this file")]
    TitleTaken(String),
    #[error("a list item of a case is `- key: value`")]
    NoKey,
    #[error("there is no key `{0}`")]
    UnknownKey(String),
    #[error("`{0}` is said twice")]
    Twice(String),
    #[error("expected `NAME=VALUE, ...`, found `{0}`")]
    NoAssignment(String),
    #[error("expected `NAME = [VALUE, ...]`, found `{0}`")]
    NoList(String),
    #[error("`{0}` is not a number")]
    Number(String),
    #[error("`{0}` is not a size")]
    Size(String),
    #[error("`{0}` is not a dtype")]
    DType(String),
    #[error("`{0}` is not a math mode; there are default, accurate, fast")]
    Math(String),
    #[error("the library has no kernel `{0}`")]
    Kernel(String),
    #[error(transparent)]
    Fill(#[from] crate::fill::UnknownFill),
    #[error(transparent)]
    Layout(#[from] crate::case::UnknownLayout),
    #[error(
        "expected `within bound`, `exact`, `values NAME = [...]` or `error \"text\"`, found `{0}`"
    )]
    Expectation(String),
    #[error("expected `error \"text\"`, then `at \"place\"`, then `fix \"more\"`; found `{0}`")]
    ErrorShape(String),
}

/// Every case of every `.md` file of a folder, the README left out, sorted by file.
pub fn read_folder(folder: &Path) -> Result<Vec<Case>, ReadError> {
    let unreadable = |error: std::io::Error| ReadError {
        file: folder.display().to_string(),
        line: 0,
        problem: error.into(),
    };
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let is_markdown = path.extension().is_some_and(|extension| extension == "md");
        if is_markdown && path.file_stem().is_some_and(|stem| stem != "README") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        cases.extend(read_file(&path)?);
    }
    Ok(cases)
}

/// The cases of one file.
pub fn read_file(path: &Path) -> Result<Vec<Case>, ReadError> {
    let name =
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    match fs::read_to_string(path) {
        Ok(text) => read_text(&name, &text),
        Err(error) => Err(ReadError { file: name, line: 0, problem: error.into() }),
    }
}

/// The cases of a text; `file` is for messages.
///
/// ```
/// let text = "## Twice\n```postlude\nD = 2 * A @ B\n```\n- sizes: M=3, N=4, K=5\n- expect: exact\n";
/// let cases = postlude_corpus::read_text("example.md", text)?;
/// assert_eq!(cases[0].title, "Twice");
/// assert_eq!(cases[0].sizes["K"], 5);
/// # Ok::<(), postlude_corpus::ReadError>(())
/// ```
pub fn read_text(file: &str, text: &str) -> Result<Vec<Case>, ReadError> {
    let mut reader = Reader::default();
    for (place, line) in text.lines().enumerate() {
        reader.line(file, place + 1, line).map_err(|problem| ReadError {
            file: file.to_owned(),
            line: place + 1,
            problem,
        })?;
    }
    let line = reader.case.as_ref().map_or(0, |draft| draft.case.line);
    let finished =
        if reader.block.is_some() { Err(ReadProblem::OpenBlock) } else { reader.finish_case() };
    finished.map_err(|problem| ReadError { file: file.to_owned(), line, problem })?;
    Ok(reader.cases)
}

#[derive(Default)]
struct Reader {
    cases: Vec<Case>,
    case: Option<Draft>,
    /// The code block being read.
    block: Option<String>,
}

/// A case being read.
struct Draft {
    case: Case,
    has_source: bool,
    /// The keys seen so far.
    keys: Vec<String>,
}

impl Reader {
    fn line(&mut self, file: &str, number: usize, line: &str) -> Result<(), ReadProblem> {
        if let Some(block) = &mut self.block {
            if line.trim_end() == "```" {
                let source = self.block.take().unwrap_or_default();
                return self.case.as_mut().ok_or(ReadProblem::Homeless)?.take_source(source);
            }
            block.push_str(line);
            block.push('\n');
        } else if let Some(title) = line.strip_prefix("## ") {
            self.finish_case()?;
            self.case = Some(Draft::new(file, number, title.trim()));
        } else if line.starts_with("```") {
            self.block = Some(String::new());
        } else if let (Some(item), Some(draft)) = (line.strip_prefix("- "), &mut self.case) {
            let (key, value) = item.split_once(':').ok_or(ReadProblem::NoKey)?;
            draft.take_key(key.trim(), value.trim())?;
        }
        Ok(())
    }

    fn finish_case(&mut self) -> Result<(), ReadProblem> {
        let Some(Draft { case, has_source, .. }) = self.case.take() else { return Ok(()) };
        let errors = case.expectations.iter();
        let errors = errors.filter(|one| matches!(one, Expectation::Error { .. })).count();
        if !has_source {
            return Err(ReadProblem::NoSource);
        }
        if case.expectations.is_empty() {
            return Err(ReadProblem::NoExpectation);
        }
        if errors != 0 && errors != case.expectations.len() {
            return Err(ReadProblem::ErrorAndResult);
        }
        if self.cases.iter().any(|other| other.title == case.title) {
            return Err(ReadProblem::TitleTaken(case.title));
        }
        self.cases.push(case);
        Ok(())
    }
}

impl Draft {
    fn new(file: &str, line: usize, title: &str) -> Draft {
        let case = Case {
            title: title.to_owned(),
            file: file.to_owned(),
            line,
            source: String::new(),
            library: None,
            sizes: postlude::Sizes::new(),
            fills: BTreeMap::new(),
            data: BTreeMap::new(),
            set: BTreeMap::new(),
            layouts: BTreeMap::new(),
            dtype: DType::BF16,
            seed: None,
            math: MathMode::Default,
            workspace: None,
            expectations: Vec::new(),
        };
        Draft { case, has_source: false, keys: Vec::new() }
    }

    fn take_source(&mut self, source: String) -> Result<(), ReadProblem> {
        if std::mem::replace(&mut self.has_source, true) {
            return Err(ReadProblem::SecondSource);
        }
        self.case.source = source;
        Ok(())
    }

    fn take_library(&mut self, name: &str) -> Result<(), ReadProblem> {
        let kernel = find_kernel(name).ok_or_else(|| ReadProblem::Kernel(name.to_owned()))?;
        self.case.library = Some(name.to_owned());
        self.take_source(kernel.source.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "## One\nProse - with: marks.\n\n```postlude\nD = A @ B\n```\n";

    fn problem(rest: &str) -> String {
        read_text("file.md", &format!("{SOURCE}{rest}")).unwrap_err().to_string()
    }

    #[test]
    fn a_case_is_read_whole() {
        let text = "# Theme\n- a list: for people\n\n## One\nWhy.\n```postlude\n## no heading\nD = A @ B\n```\n\
            - sizes: M=1, N=2\n- fill: A=ones\n- data: B = [1, nan, -inf]\n- set: a=2, b=-1e-3\n- strides: A=padded\n\
            - dtype: f16\n- seed: 7\n- math: fast\n- expect: exact\n- expect: values D = []\n\n\
            ## Two\n- kernel: swiglu\n- expect: error \"a `)`\" at \"(\" fix \"x\"\n";
        let cases = read_text("file.md", text).unwrap();
        let [one, two] = cases.as_slice() else { panic!("{cases:?}") };
        assert_eq!((one.title.as_str(), one.line), ("One", 4));
        assert_eq!(one.source, "## no heading\nD = A @ B\n");
        assert_eq!(one.sizes, [("M".to_owned(), 1), ("N".to_owned(), 2)].into());
        assert!(one.data["B"][1].is_nan() && one.data["B"][2] == f64::NEG_INFINITY);
        assert_eq!(one.set["b"], -1e-3);
        assert_eq!((one.seed, one.math, one.dtype), (Some(7), MathMode::Fast, DType::F16));
        let empty = Expectation::Values { output: "D".to_owned(), values: Vec::new() };
        assert_eq!(one.expectations, [Expectation::Exact, empty]);
        assert_eq!(two.library.as_deref(), Some("swiglu"));
        assert_eq!(two.expectations[0].to_string(), "error \"a `)`\" at \"(\" fix \"x\"");
    }

    #[test]
    fn mistakes_name_their_file_and_line() {
        for (rest, want) in [
            ("- sizes: M=x\n", "file.md:7: `x` is not a size"),
            ("- sizes: M\n", "file.md:7: expected `NAME=VALUE, ...`, found `M`"),
            ("- size: M=1\n", "file.md:7: there is no key `size`"),
            ("- sizes: M=1\n- sizes: N=1\n", "file.md:8: `sizes` is said twice"),
            ("- data: A = 1, 2\n", "file.md:7: expected `NAME = [VALUE, ...]`, found `A = 1, 2`"),
            ("- data: A = [1, x]\n", "file.md:7: `x` is not a number"),
            ("- dtype: float\n", "file.md:7: `float` is not a dtype"),
            (
                "- kernel: swiglu\n",
                "file.md:7: a case has one code block or one `kernel:`, and this is another",
            ),
            ("## Two\n", "file.md:7: the case expects nothing"),
            (
                "- expect: exact\n## Two\n- expect: exact\n",
                "file.md:8: the case has neither a code block nor a `kernel:`",
            ),
            ("- expect: exact\n```\nx\n", "file.md:1: a code block is never closed"),
            (
                "- expect: exact\n- expect: error \"x\"\n",
                "file.md:1: a case that expects an error cannot expect anything else",
            ),
        ] {
            assert_eq!(problem(rest), want);
        }
        assert!(problem("- fill: A=randn\n").contains("`randn` is no kind of fill"));
        assert!(problem("- strides: A=odd\n").contains("`odd` is no kind of strides"));
        assert!(problem("- expect: nice\n").contains("found `nice`"));
        assert!(problem("- expect: error \"a\" near \"b\"\n").contains("then `at \"place\"`"));
        assert!(problem(&format!("- expect: exact\n{SOURCE}- expect: exact\n")).contains("taken"));
    }
}
