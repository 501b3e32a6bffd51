//! A link from one page to a file of the tree leads somewhere.

use crate::Violation;
use crate::tree::Tree;

/// Relative links in Markdown whose target is not in the tree.
pub fn violations(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for page in tree.files.iter().filter(|file| file.path.rsplit_once('.').is_some_and(|(_, end)| end == "md")) {
        for (number, line) in (1..).zip(page.text.lines()) {
            for target in targets(line) {
                let place = resolve(&page.path, target);
                let exists =
                    tree.files.iter().any(|file| file.path == place || file.path.starts_with(&format!("{place}/")));
                if !exists {
                    found.push(Violation::new(
                        &page.path,
                        number,
                        format!("`{target}` leads nowhere: correct the link"),
                    ));
                }
            }
        }
    }
    found
}

/// The targets of the links in a line that point into the tree, without their fragments.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        let inside = !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:");
        inside.then_some(target)
    })
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
            ("README.md", ""),
            ("crates/x/Cargo.toml", ""),
        ]);
        let found = violations(&tree);
        assert_eq!(found.len(), 1, "{}", crate::report(&found));
        assert!(found[0].text.contains("lost.md"));
    }
}
