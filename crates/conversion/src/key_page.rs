//! The page of the keys of another broker.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A row of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow<'a> {
    /// The key. `*` is any rest of a name, `**` any further names.
    pub name: Cow<'a, str>,
    /// Its usual outcome.
    pub outcome: &'static str,
    /// Whether it restricts who may connect, publish or subscribe.
    pub restricts: bool,
    /// The outcome, for people.
    pub how: &'static str,
}

/// Writes the page of the keys of `broker`, as Markdown.
pub fn key_page<'a>(broker: &str, rows: impl Iterator<Item = KeyRow<'a>>) -> String {
    let mut page = format!(
        "# Configuration of {broker}\n\n\
         `*` is any rest of a name, `**` any further names. A key that is not here closes all listeners.\n\n\
         ## Keys of {broker}\n\n\
         | key | becomes | restricts access | how |\n| --- | --- | --- | --- |\n"
    );
    for KeyRow { name, outcome, restricts, how } in rows {
        let restricts = if restricts { "yes" } else { "" };
        let _ = writeln!(page, "| `{name}` | {outcome} | {restricts} | {how} |");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_row() {
        let row =
            |name: &'static str, restricts| KeyRow { name: name.into(), outcome: "changed", restricts, how: "why" };
        let page = key_page("Mosquitto", [row("a", true), row("b*", false)].into_iter());
        assert!(page.starts_with("# Configuration of Mosquitto\n"), "{page}");
        let rows = "\n## Keys of Mosquitto\n\n| key | becomes | restricts access | how |\n| --- | --- | --- | --- |\n\
             | `a` | changed | yes | why |\n| `b*` | changed |  | why |\n";
        assert!(page.ends_with(rows), "{page}");
    }
}
