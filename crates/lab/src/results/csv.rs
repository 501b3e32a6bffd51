//! One line for each run, for spreadsheets.

use std::fmt::Write as _;

use super::{Measure, Results};

/// All measures of all runs, with a header. Numbers have a point; text is quoted.
pub fn csv(results: &Results) -> String {
    let mut out = String::from("case,broker,repetition,invalid");
    for measure in Measure::ALL {
        let (name, unit) = measure.name();
        out.push(',');
        out.push_str(&quoted(&format!("{name} [{unit}]")));
    }
    out.push('\n');
    for run in &results.runs {
        let invalid = run.invalid.as_deref().unwrap_or_default();
        // Writing to a text does not fail.
        let _ = write!(out, "{},{},{},{}", quoted(&run.case), quoted(&run.peer), run.repetition, quoted(invalid));
        for measure in Measure::ALL {
            let _ = match measure.of(run) {
                Some(value) => write!(out, ",{value}"),
                None => write!(out, ","),
            };
        }
        out.push('\n');
    }
    out
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_doubled() {
        assert_eq!(quoted("a \"b\", c"), "\"a \"\"b\"\", c\"");
    }
}
