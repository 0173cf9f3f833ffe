//! A tensor's elements as NumPy prints an array.
//!
//! In: a tensor. Out: text in NumPy's form (`numpy.array2string` with its defaults): the fewest digits that tell an element
//! from its neighbours in the tensor's own dtype, at most 8 behind the point, columns aligned, lines of 75 characters, and
//! `...` for what lies between the three first and the three last of a dim where there are more than 1000 elements.

mod number;

use postlude::dtype::Elem;
use postlude::{DType, Tensor};
use serde_json::Value;

use number::{Floats, scalar};

/// An array with more elements is shown in part.
const WHOLE: usize = 1000;
/// Elements, or rows of them, shown at each end of a dim that is not shown whole.
const EDGE: usize = 3;
/// Characters of a line.
const WIDTH: usize = 75;

/// The elements for a person.
pub(crate) fn text(tensor: &Tensor) -> String {
    if tensor.is_empty() {
        return "[]".to_owned();
    }
    if let ([], true) = (tensor.shape(), tensor.dtype().is_float()) {
        return scalar(tensor.dtype(), tensor.get(&[]));
    }
    let shown = Shown { tensor, is_whole: tensor.len() <= WHOLE };
    let mut values = Vec::new();
    shown.visit(&mut Vec::new(), &mut |value| values.push(value));
    let words = Words::of(tensor.dtype(), &values, tensor.shape().is_empty());
    shown.lines(&words, &mut Vec::new(), 1, WIDTH)
}

/// The elements for a program: nested lists, or null where there are more than 1000.
pub(crate) fn value(tensor: &Tensor) -> Value {
    if tensor.len() > WHOLE { Value::Null } else { nested(tensor, &mut Vec::new()) }
}

fn nested(tensor: &Tensor, index: &mut Vec<usize>) -> Value {
    let Some(size) = tensor.shape().get(index.len()) else {
        return element(tensor.dtype(), tensor.get(index));
    };
    let part = |at: usize| {
        index.push(at);
        let part = nested(tensor, index);
        index.pop();
        part
    };
    Value::Array((0..*size).map(part).collect())
}

fn element(dtype: DType, value: f64) -> Value {
    match dtype.elem() {
        Elem::Bool => Value::from(value != 0.0),
        Elem::I32 => Value::from(value as i64),
        Elem::F32 => Value::from(value),
    }
}

/// How elements are written, all with the same width.
enum Words {
    Truths { width: usize },
    Integers { width: usize },
    Floats(Floats),
}

impl Words {
    fn of(dtype: DType, values: &[f64], is_scalar: bool) -> Words {
        match dtype.elem() {
            Elem::Bool => Words::Truths { width: if is_scalar { 0 } else { 5 } },
            Elem::I32 => {
                let width = values.iter().map(|value| (*value as i64).to_string().len()).max();
                Words::Integers { width: width.unwrap_or(0) }
            }
            Elem::F32 => Words::Floats(Floats::of(dtype, values)),
        }
    }

    fn word(&self, value: f64) -> String {
        match self {
            Words::Truths { width } => {
                let word = if value == 0.0 { "False" } else { "True" };
                format!("{word:>width$}")
            }
            Words::Integers { width } => format!("{:>width$}", value as i64),
            Words::Floats(floats) => floats.word(value),
        }
    }
}

/// The elements that are shown.
struct Shown<'a> {
    tensor: &'a Tensor,
    is_whole: bool,
}

impl Shown<'_> {
    /// Places along a dim, from its start and before its end; the second is empty where all are shown.
    fn places(&self, dim: usize) -> (Vec<usize>, Vec<usize>) {
        let size = self.tensor.shape()[dim];
        if self.is_whole || size <= 2 * EDGE {
            ((0..size).collect(), Vec::new())
        } else {
            ((0..EDGE).collect(), (size - EDGE..size).collect())
        }
    }

    fn visit(&self, index: &mut Vec<usize>, each: &mut impl FnMut(f64)) {
        if index.len() == self.tensor.shape().len() {
            each(self.tensor.get(index));
            return;
        }
        let (start, end) = self.places(index.len());
        for at in start.into_iter().chain(end) {
            index.push(at);
            self.visit(index, each);
            index.pop();
        }
    }

    /// What stands at an index; lines but the first are indented by this many spaces.
    fn lines(&self, words: &Words, index: &mut Vec<usize>, indent: usize, width: usize) -> String {
        let dims_left = self.tensor.shape().len() - index.len();
        if dims_left == 0 {
            return words.word(self.tensor.get(index));
        }
        let (start, end) = self.places(index.len());
        let skips = !end.is_empty();
        let mut part = |at: usize| {
            index.push(at);
            let part = self.lines(words, index, indent + 1, width - 1);
            index.pop();
            part
        };
        let mut parts: Vec<String> = start.into_iter().map(&mut part).collect();
        if skips {
            parts.push("...".to_owned());
        }
        parts.extend(end.into_iter().map(part));
        let prefix = " ".repeat(indent);
        let text = if dims_left == 1 {
            fill(&parts, &prefix, width - 1)
        } else {
            parts.join(&format!("{}{prefix}", "\n".repeat(dims_left - 1)))
        };
        format!("[{text}]")
    }
}

/// Words with a space between them, in lines of at most that width; the first line has its indentation from elsewhere.
fn fill(words: &[String], prefix: &str, width: usize) -> String {
    let (mut text, mut line) = (String::new(), prefix.to_owned());
    for (place, word) in words.iter().enumerate() {
        if place > 0 {
            line.push(' ');
        }
        if line.len() + word.len() > width && line.len() > prefix.len() {
            text.push_str(line.trim_end());
            text.push('\n');
            prefix.clone_into(&mut line);
        }
        line.push_str(word);
    }
    text.push_str(&line);
    text[prefix.len()..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(dtype: DType, shape: &[usize], values: &[f64]) -> String {
        text(&Tensor::from_values(dtype, shape, values).unwrap())
    }

    /// What NumPy prints for the same arrays.
    #[test]
    fn arrays_look_as_in_numpy() {
        for (shape, values, wanted) in [
            (&[3][..], &[1.0, 2.5, 3.125][..], "[1.    2.5   3.125]"),
            (&[2], &[0.1, 100.0], "[  0.1 100. ]"),
            (&[2], &[-1.5, 2.0], "[-1.5  2. ]"),
            (&[2, 2], &[1.0, 2.0, 3.0, -4.0], "[[ 1.  2.]\n [ 3. -4.]]"),
            (&[3], &[f64::NAN, 1.0, f64::INFINITY], "[nan  1. inf]"),
            (&[2], &[f64::NEG_INFINITY, 0.5], "[-inf  0.5]"),
            (&[2], &[f64::NAN, f64::NAN], "[nan nan]"),
            (&[2], &[1.0, 1e9], "[1.e+00 1.e+09]"),
            (&[2], &[1.5, 1e9], "[1.5e+00 1.0e+09]"),
            (&[2], &[1e-5, 1.0], "[1.e-05 1.e+00]"),
            (&[2], &[-2e-9, f64::NAN], "[-2.e-09     nan]"),
            (&[], &[0.5], "0.5"),
            (&[], &[9.0], "9.0"),
            (&[], &[-1e-5], "-1e-05"),
            (&[], &[1.5e20], "1.5e+20"),
            (&[], &[16777216.0], "16777216.0"),
            (&[], &[f64::NAN], "nan"),
            (&[1], &[0.0], "[0.]"),
            (&[1], &[-0.0], "[-0.]"),
            (&[2], &[0.1, 0.30000001192092896], "[0.1 0.3]"),
            (&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0], "[[[1. 2.]]\n\n [[3. 4.]]]"),
            (&[0, 3], &[], "[]"),
        ] {
            assert_eq!(shown(DType::F32, shape, values), wanted);
        }
    }

    #[test]
    fn digits_are_those_of_the_dtype() {
        assert_eq!(shown(DType::F32, &[1], &[1.0 / 3.0]), "[0.33333334]");
        assert_eq!(shown(DType::F16, &[1], &[1.0 / 3.0]), "[0.3333]");
        assert_eq!(shown(DType::BF16, &[1], &[1.0 / 3.0]), "[0.334]");
        assert_eq!(shown(DType::F32, &[2], &[1e-3, 3.0e7]), "[1.e-03 3.e+07]");
        assert_eq!(shown(DType::I32, &[3], &[-7.0, 100.0, 3.0]), "[ -7 100   3]");
        assert_eq!(shown(DType::Bool, &[2], &[1.0, 0.0]), "[ True False]");
        assert_eq!(shown(DType::Bool, &[], &[1.0]), "True");
        assert_eq!(shown(DType::U8, &[], &[255.0]), "255");
    }

    #[test]
    fn long_lines_are_broken_and_large_arrays_cut() {
        let count: Vec<f64> = (0..40).map(f64::from).collect();
        let text = shown(DType::I32, &[40], &count);
        assert_eq!(
            text,
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n \
             24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39]"
        );
        let many: Vec<f64> = (0..1001).map(f64::from).collect();
        assert_eq!(shown(DType::I32, &[1001], &many), "[   0    1    2 ...  998  999 1000]");
        let square: Vec<f64> = (0..1600).map(f64::from).collect();
        let text = shown(DType::I32, &[40, 40], &square);
        assert_eq!(text.lines().count(), 7);
        assert_eq!(text.lines().next(), Some("[[   0    1    2 ...   37   38   39]"));
        assert_eq!(text.lines().nth(3), Some(" ..."));
        assert_eq!(text.lines().nth(6), Some(" [1560 1561 1562 ... 1597 1598 1599]]"));
    }

    #[test]
    fn objects_hold_small_tensors_alone() {
        let tensor = Tensor::from_values(DType::F32, [2, 1], &[1.5, f64::NAN]).unwrap();
        assert_eq!(value(&tensor).to_string(), "[[1.5],[null]]");
        let tensor = Tensor::from_values(DType::Bool, [2], &[1.0, 0.0]).unwrap();
        assert_eq!(value(&tensor).to_string(), "[true,false]");
        assert_eq!(value(&Tensor::zeros(DType::F32, [1001]).unwrap()), Value::Null);
    }
}
