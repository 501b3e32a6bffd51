//! Colours on light and dark pages, and the rules that use them.

use crate::markup::put;

/// A name with its colour on light and on dark pages.
const COLOURS: [(&str, &str, &str); 14] = [
    ("paper", "#fdfdfc", "#14171b"),
    ("ink", "#1b1f24", "#e7eaee"),
    ("soft", "#5b6470", "#9aa5b1"),
    ("line", "#d9dde2", "#333a43"),
    ("s0", "#0b5fc0", "#6cb0ff"),
    ("s1", "#c2410c", "#ff9a5c"),
    ("s2", "#0f766e", "#4fd1c5"),
    ("s3", "#7c3aed", "#b794f6"),
    ("s4", "#946200", "#e3b341"),
    ("s5", "#be185d", "#f687b3"),
    ("s6", "#475569", "#a9b6c6"),
    ("s7", "#3f7d20", "#8fd16a"),
    ("s8", "#0e7490", "#67e8f9"),
    ("s9", "#7f1d1d", "#fca5a5"),
];

const RULES: &str = include_str!("style.css");

/// Style for an HTML page with drawings: the colours as variables, which rules of the page may use and replace.
pub fn page_style() -> String {
    let (mut light, mut dark) = (String::new(), String::new());
    for (name, on_light, on_dark) in COLOURS {
        put!(light, " --{name}: {on_light};");
        put!(dark, " --{name}: {on_dark};");
    }
    format!(":root {{{light} }}\n@media (prefers-color-scheme: dark) {{ :root {{{dark} }} }}\n{RULES}")
}

/// The element with the style of a file. It has no variables, as converters of SVG do not know them.
pub(crate) fn file_style() -> String {
    let (mut light, mut dark) = (RULES.to_owned(), RULES.to_owned());
    for (name, on_light, on_dark) in COLOURS {
        let variable = format!("var(--{name})");
        light = light.replace(&variable, on_light);
        dark = dark.replace(&variable, on_dark);
    }
    format!("<style>\n{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n</style>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::SERIES;

    #[test]
    fn a_file_has_each_colour_for_light_and_dark_pages() {
        let style = file_style();
        let (light, dark) = style.split_once("@media").unwrap();
        assert!(!style.contains("var("), "{style}");
        for (name, on_light, on_dark) in COLOURS {
            assert!(light.contains(on_light) && dark.contains(on_dark), "{name}");
        }
        for series in 0..SERIES {
            assert!(RULES.contains(&format!(".c{series} {{")) && RULES.contains(&format!(".f{series} {{")), "{series}");
        }
    }
}
