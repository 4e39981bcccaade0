//! One module per entry: header, the variables it uses, and the entry under its public name.

use std::fmt::Write as _;

use super::{Entry, PtxFile, identifiers, loops, replace_identifiers};

/// What the splitter cannot make a module of.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// A label of a form that the compiler is not known to write.
    #[error("`{entry}` has a label of an unknown form: `{label}`")]
    Label {
        /// The entry's symbol.
        entry: String,
        /// The label.
        label: String,
    },
    /// Labels of two functions in one entry, which renumbering would mix up.
    #[error("`{entry}` has labels of two functions: `{first}` and `{second}`")]
    MixedLabels {
        /// The entry's symbol.
        entry: String,
        /// The first label.
        first: String,
        /// A label with another function number.
        second: String,
    },
}

/// The module's text for one entry: renamed to `public_name`, its parameters to `<public_name>_param_N`, its
/// labels renumbered as if it were the first function, its hole-bounded loops turned into the shape that
/// ptxas unrolls. `note` becomes the first line, a comment; `threads` bounds the registers by the threads of a
/// block and the blocks that a multiprocessor should hold.
///
/// # Errors
/// Labels that cannot be renumbered safely.
pub fn module(
    file: &PtxFile,
    entry: &Entry,
    public_name: &str,
    note: &str,
    threads: Option<[u32; 2]>,
) -> Result<String, SplitError> {
    check_labels(entry)?;
    let mut body = entry.body.clone();
    loops::rewrite(&mut body);
    let rename = |text: &str| {
        replace_identifiers(text, |token| {
            if token == entry.name {
                return Some(public_name.to_owned());
            }
            if let Some(rest) = token.strip_prefix(entry.name.as_str()).filter(|r| r.starts_with("_param_")) {
                return Some(format!("{public_name}{rest}"));
            }
            let (_, block) = block_label(token)?;
            Some(format!("$L__BB0_{block}"))
        })
    };
    let mut out =
        format!("// {note}\n.version {}\n.target {}\n.address_size 64\n\n", file.version, file.target);
    let used: Vec<&str> = body.iter().flat_map(|line| identifiers(line)).collect();
    for variable in file.variables.iter().filter(|v| used.contains(&v.name.as_str())) {
        let _ = writeln!(out, "{}", variable.text);
    }
    let _ = write!(out, ".visible .entry {public_name}(");
    for (i, param) in entry.params.iter().enumerate() {
        let _ = write!(out, "{}\n\t{}", if i == 0 { "" } else { "," }, rename(param));
    }
    out.push_str("\n)\n");
    if let Some([a_block, blocks]) = threads {
        let _ = write!(out, ".maxntid {a_block}, 1, 1\n.minnctapersm {blocks}\n");
    }
    for directive in &entry.directives {
        let _ = writeln!(out, "{directive}");
    }
    out.push_str("{\n");
    for line in &body {
        let _ = writeln!(out, "{}", rename(line));
    }
    out.push_str("}\n");
    Ok(out)
}

/// `$L__BB<function>_<block>` as its two numbers.
fn block_label(token: &str) -> Option<(&str, &str)> {
    let (function, block) = token.strip_prefix("$L__BB")?.split_once('_')?;
    let number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    (number(function) && number(block)).then_some((function, block))
}

fn check_labels(entry: &Entry) -> Result<(), SplitError> {
    let mut first: Option<&str> = None;
    for token in entry.body.iter().flat_map(|line| identifiers(line)).filter(|t| t.starts_with('$')) {
        let Some((function, _)) = block_label(token) else {
            return Err(SplitError::Label { entry: entry.name.clone(), label: token.to_owned() });
        };
        let known = *first.get_or_insert(token);
        if block_label(known).is_some_and(|(f, _)| f != function) {
            return Err(SplitError::MixedLabels {
                entry: entry.name.clone(),
                first: known.to_owned(),
                second: token.to_owned(),
            });
        }
    }
    Ok(())
}
