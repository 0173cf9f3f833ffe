//! Where a kernel's text comes from.
//!
//! In: the argument SRC. Out: bytes, which need not be text, and what to call them in messages.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;

use postlude::syntax;
use postlude_corpus::{find_kernel, kernels};

use crate::failure::{Failure, Mistake};

/// A kernel's text.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// What to call it in messages.
    pub(crate) origin: String,
    /// The text.
    pub(crate) bytes: Vec<u8>,
}

impl Source {
    /// Reads `-` (standard input), a path that ends in `.post`, a kernel of the library by name, or the text itself.
    pub(crate) fn read(argument: &OsStr) -> Result<Source, Failure> {
        if argument == "-" {
            return Source::from_reader("<stdin>", io::stdin().lock());
        }
        let path = Path::new(argument);
        if path.extension() == Some(OsStr::new("post"))
            && !argument.as_encoded_bytes().contains(&b'\n')
        {
            let file = std::fs::File::open(path).map_err(|error| Mistake::io(path, &error))?;
            return Source::from_reader(&path.display().to_string(), file);
        }
        match argument.to_str() {
            Some(name) if syntax::is_name(name) => Source::from_library(name),
            Some(text) if is_path(text) => Err(not_a_kernel(path).into()),
            Some(_) | None => Ok(Source {
                origin: "<text>".to_owned(),
                bytes: argument.as_encoded_bytes().to_vec(),
            }),
        }
    }

    /// A kernel of the library.
    pub(crate) fn from_library(name: &str) -> Result<Source, Failure> {
        match find_kernel(name) {
            Some(kernel) => Ok(Source {
                origin: format!("kernels/{name}.post"),
                bytes: kernel.source.as_bytes().to_vec(),
            }),
            None => Err(unknown_kernel(name).into()),
        }
    }

    /// One byte more than a kernel may have is enough to refuse it.
    fn from_reader(origin: &str, reader: impl Read) -> Result<Source, Failure> {
        let mut bytes = Vec::new();
        let read = reader.take(syntax::MAX_SOURCE as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| Mistake::io(Path::new(origin), &error))?;
        Ok(Source { origin: origin.to_owned(), bytes })
    }
}

/// A text file that is no kernel: a schedule, PTX, a launch. It may be as long as a kernel.
pub(crate) fn read_text(path: &Path) -> Result<String, Mistake> {
    let io = |error: io::Error| Mistake::io(path, &error);
    let file = std::fs::File::open(path).map_err(io)?;
    let mut text = String::new();
    file.take(syntax::MAX_SOURCE as u64 + 1).read_to_string(&mut text).map_err(io)?;
    if text.len() > syntax::MAX_SOURCE {
        let most = syntax::MAX_SOURCE >> 20;
        return Err(Mistake::file(path, format!("it is longer than {most} MiB"))
            .fix("name a file that Postlude printed"));
    }
    Ok(text)
}

/// Whether a text that is no name can only be meant as a path: no kernel is without `=`, and a point or a slash stands in it.
fn is_path(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || "._-+~/\\:".contains(letter);
    text.contains(['.', '/', '\\']) && text.chars().all(is_letter)
}

fn not_a_kernel(path: &Path) -> Mistake {
    if !path.exists() {
        let mistake = Mistake::file(path, "no such file");
        return mistake.fix("name a file that ends in `.post`, a kernel of the library (`postlude list`), or write the kernel: \"D = relu(A @ B)\"");
    }
    let what = if path.is_dir() { "this is a folder" } else { "a kernel's file ends in `.post`" };
    let post = path.with_extension("post");
    let fix = format!(
        "rename it to {}, or read it from standard input: `- < {}`",
        post.display(),
        path.display()
    );
    let mistake = Mistake::file(path, what);
    if path.is_dir() {
        mistake.fix("name a file in it that ends in `.post`")
    } else {
        mistake.fix(fix)
    }
}

fn unknown_kernel(name: &str) -> Mistake {
    let names = kernels().iter().map(|kernel| kernel.name);
    let near = syntax::nearest(name, names).map(|near| format!("did you mean `{near}`? "));
    Mistake::new(format!("the library has no kernel `{name}`"))
        .fix(format!("{}`postlude list` shows them all", near.unwrap_or_default()))
}
