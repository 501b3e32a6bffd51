//! Every reason is explained to the people who meet it, and no page explains a reason or a metric that does not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Violation;
use crate::source::{Source, Sources};
use crate::tree::Tree;

/// The file that declares the reasons.
const REASONS_SOURCE: &str = "crates/engine/src/events/reason.rs";
/// The file that gives the codes of MQTT 5 their numbers.
const CODES_SOURCE: &str = "crates/mqtt/src/reason_code.rs";
/// The page that explains the reasons.
const REASONS_PAGE: &str = "crates/console/src/api/reasons.txt";
/// How the name of each metric begins.
const METRIC_PREFIXES: &[&str] = &["mqtt_", "tidegate_", "process_"];

/// One row of the table of reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reason {
    line: usize,
    number: String,
    label: String,
    /// The name of the reason code of MQTT 5.
    code: String,
    text: String,
}

/// Reasons without a row in the page of reasons, and rows without a reason.
pub fn reasons(tree: &Tree, sources: &Sources) -> Vec<Violation> {
    let Some(source) = sources.files.iter().find(|source| source.path == REASONS_SOURCE) else {
        return vec![Violation::new(REASONS_SOURCE, 0, "the table of reasons is not where this rule looks for it")];
    };
    let Some(page) = tree.get(REASONS_PAGE) else {
        return vec![Violation::new(REASONS_PAGE, 0, "the page of reasons is missing")];
    };
    let declared = declared_reasons(source);
    let codes = sources.files.iter().find(|source| source.path == CODES_SOURCE).map(declared_codes).unwrap_or_default();
    if declared.is_empty() {
        return vec![Violation::new(REASONS_SOURCE, 0, "no row of the table of reasons could be read")];
    }
    let mut found = Vec::new();
    for reason in &declared {
        let code = codes.get(&reason.code).map_or("?", String::as_str);
        let start = format!("| {} | `{}` | `{code}` |", reason.number, reason.label);
        let row = page.text.lines().find(|line| line.starts_with(&start));
        if !row.is_some_and(|row| row.contains(&reason.text)) {
            let text = format!("{REASONS_PAGE} needs a row that begins with `{start}` and says \"{}\"", reason.text);
            found.push(Violation::new(REASONS_SOURCE, reason.line, text));
        }
    }
    for (number, line) in (1..).zip(page.text.lines()) {
        let Some((_, label)) = row_of(line) else {
            continue;
        };
        if !declared.iter().any(|reason| reason.label == label) {
            found.push(Violation::new(REASONS_PAGE, number, format!("`{label}` is no reason: delete the row")));
        }
    }
    found
}

/// The number and the label at the beginning of a row of the page.
fn row_of(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.strip_prefix("| ")?.split_once(" | `")?;
    let (label, _) = rest.split_once('`')?;
    number.bytes().all(|digit| digit.is_ascii_digit()).then_some((number, label))
}

/// Reads `Name = number, "label", Code, "text";` out of the tokens.
fn declared_reasons(source: &Source) -> Vec<Reason> {
    let tokens = &source.tokens;
    let quoted = |text: &str| text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).map(str::to_owned);
    let mut rows = Vec::new();
    for window in tokens.windows(10) {
        let [_, equals, number, comma, label, comma_2, code, comma_3, text, end] = window else {
            continue;
        };
        let shape = [&equals.text, &comma.text, &comma_2.text, &comma_3.text, &end.text] == ["=", ",", ",", ",", ";"];
        let (Some(label), Some(text)) = (quoted(&label.text), quoted(&text.text)) else {
            continue;
        };
        if shape && number.text.bytes().all(|digit| digit.is_ascii_digit()) {
            let (number, line) = (number.text.clone(), number.line);
            rows.push(Reason { line, number, label, code: code.text.clone(), text });
        }
    }
    rows
}

/// Reads `Name = 0xNN,` out of the tokens.
fn declared_codes(source: &Source) -> BTreeMap<String, String> {
    let rows = source.tokens.windows(3).filter(|row| row[1].text == "=" && row[2].text.starts_with("0x"));
    rows.map(|row| (row[0].text.clone(), row[2].text.clone())).collect()
}

/// Names of metrics in `docs` that no code exposes.
pub fn metrics(tree: &Tree, sources: &Sources) -> Vec<Violation> {
    let is_part = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
    let texts = sources.files.iter().flat_map(|source| &source.tokens).filter(|token| token.text.starts_with('"'));
    let exposed: BTreeSet<&str> = texts
        .flat_map(|token| token.text.split(|character| !is_part(character)))
        .filter(|name| is_metric(name))
        .collect();
    let mut found = Vec::new();
    for page in tree
        .files
        .iter()
        .filter(|file| file.path.starts_with("docs/") && Path::new(&file.path).extension().is_some_and(|it| it == "md"))
    {
        for (number, line) in (1..).zip(page.text.lines()) {
            let names = line.split('`').map(|name| name.split('{').next().unwrap_or_default());
            for name in names.filter(|name| is_metric(name) && !exposed.contains(name)) {
                let text = format!("no code exposes `{name}`: delete or correct it");
                found.push(Violation::new(&page.path, number, text));
            }
        }
    }
    found
}

fn is_metric(name: &str) -> bool {
    let rest = METRIC_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or_default();
    !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "reasons! {\n    /// Doc.\n    Late = 3, \"late\", Busy, \"came too late\";\n}\n";

    const CODES: &str = "codes! { Busy = 0x89, \"server busy\"; }\n";

    fn reasons_of(page: &str) -> usize {
        let tree = Tree::of(&[(REASONS_SOURCE, TABLE), (CODES_SOURCE, CODES), (REASONS_PAGE, page)]);
        reasons(&tree, &Sources::load(&tree).unwrap()).len()
    }

    #[test]
    fn a_reason_needs_its_row_with_number_label_code_and_text() {
        assert_eq!(reasons_of("| 3 | `late` | `0x89` | came too late |\n"), 0);
        assert_eq!(reasons_of("| 4 | `late` | `0x89` | came too late |\n"), 1);
        assert_eq!(reasons_of("| 3 | `late` | `0x80` | came too late |\n"), 1);
        assert_eq!(reasons_of("| 3 | `late` | `0x89` | came early |\n"), 1);
        assert_eq!(reasons_of(""), 1);
    }

    #[test]
    fn a_row_without_a_reason_is_caught() {
        assert_eq!(reasons_of("| 3 | `late` | `0x89` | came too late |\n| 4 | `never` | `0x89` | x |\n"), 1);
    }

    #[test]
    fn a_metric_on_a_page_is_exposed_by_code() {
        let code = "const A: &str = \"tidegate_a_total\";\nconst B: &str = \"{tidegate_b} 1\";\n";
        let page = "`tidegate_a_total` `tidegate_b{state=\"x\"}` `tidegate_c` `tidegate_d_*`\n";
        let tree = Tree::of(&[("crates/console/src/lib.rs", code), ("docs/a.md", page)]);
        let found = metrics(&tree, &Sources::load(&tree).unwrap());
        assert_eq!(found.len(), 1, "{}", crate::report(&found));
    }
}
