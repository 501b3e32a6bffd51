//! A link from one page to a file of the tree, or to a heading of a page, leads somewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::Violation;
use crate::tree::Tree;

/// Relative links in Markdown whose target is not in the tree, or whose fragment names no heading of the page.
pub fn violations(tree: &Tree) -> Vec<Violation> {
    let pages: Vec<_> =
        tree.files.iter().filter(|file| file.path.rsplit_once('.').is_some_and(|(_, end)| end == "md")).collect();
    let headings: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let mut found = Vec::new();
    for page in pages {
        for (number, line) in (1..).zip(page.text.lines()) {
            for (target, fragment) in targets(line) {
                let place = if target.is_empty() { page.path.clone() } else { resolve(&page.path, target) };
                let unknown = headings.get(place.as_str()).is_some_and(|known| !known.contains(fragment));
                let text = match (exists(tree, &place), unknown && !fragment.is_empty()) {
                    (true, false) => continue,
                    (false, _) => format!("`{target}` leads nowhere: correct the link"),
                    (true, true) => {
                        format!("`{target}#{fragment}` names no heading of {place}: correct the fragment")
                    }
                };
                found.push(Violation::new(&page.path, number, text));
            }
        }
    }
    found
}

/// Whether a place is a file of the tree or a folder in it.
fn exists(tree: &Tree, place: &str) -> bool {
    tree.files.iter().any(|file| file.path == place || file.path.starts_with(&format!("{place}/")))
}

/// The targets of the links in a line that point into the tree, each with its fragment.
fn targets(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split("](").skip(1).filter_map(|rest| {
        let whole = rest.split(')').next()?;
        let (target, fragment) = whole.split_once('#').unwrap_or((whole, ""));
        let inside = !whole.is_empty() && !target.contains("://") && !target.starts_with("mailto:");
        inside.then_some((target, fragment))
    })
}

/// The names of the headings of a page in links, as GitHub makes them from the texts.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let heading = line.trim_start_matches('#');
        let depth = line.len() - heading.len();
        if in_code || !(1..=6).contains(&depth) || !heading.starts_with(' ') {
            continue;
        }
        let name = slug(heading.trim());
        // The second one of a name gets `-1`, and so on.
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

fn slug(heading: &str) -> String {
    // Of a link only the text is part of the name.
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, behind)) = rest.split_once("](") {
        text.push_str(before);
        rest = behind.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    text.to_lowercase()
        .chars()
        .filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then_some(letter),
        })
        .collect()
}

fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_link_is_caught() {
        let tree = Tree::of(&[
            ("docs/a.md", "[b](b.md) [up](../README.md#top) [out](https://example.org) [here](#x) [lost](lost.md)\n"),
            ("docs/b.md", "[folder](../crates)\n"),
            ("README.md", "# Top\n"),
            ("crates/x/Cargo.toml", ""),
        ]);
        let found = violations(&tree);
        assert_eq!(found.len(), 2, "{}", crate::report(&found));
        assert!(found[0].text.contains("#x"));
        assert!(found[1].text.contains("lost.md"));
    }

    #[test]
    fn a_fragment_names_a_heading_as_github_does() {
        let tree = Tree::of(&[
            (
                "docs/a.md",
                "## `[node]` and *more*, at [last](b.md)\n## Twice\n## Twice\n```sh\n# a comment\n```\n[b](b.md#who-says)\n",
            ),
            (
                "docs/b.md",
                "# Who says\n[1](a.md#node-and-more-at-last) [2](a.md#twice-1) [3](a.md#a-comment) [4](#who_says)\n",
            ),
        ]);
        let found: Vec<String> = violations(&tree).into_iter().map(|violation| violation.text).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("#a-comment") && found[1].contains("#who_says"), "{found:?}");
    }
}
