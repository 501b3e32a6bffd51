//! No object does everything, and modules do not import each other in circles.
//!
//! A count above a limit is listed in [`ceilings`](crate::ceilings). A count above its ceiling fails, and so does a
//! ceiling above its count: a number in the list can only fall.

use std::collections::{BTreeMap, BTreeSet};

use crate::Violation;
use crate::ceilings::{Arrows, Ceiling};
use crate::exceptions::Exception;
use crate::source::{Method, Source, Sources, is_stand_in};

/// Functions that may work on one type: methods of all its `impl` blocks, also of traits, and free functions
/// whose first parameter borrows it. For a trait, the methods that it declares: another implementation makes it no larger.
const METHODS: usize = 40;

/// The file that the ceilings are in.
const LIST: &str = "crates/tidy/src/ceilings.rs";

/// Types with more functions than `METHODS`, or than their ceiling.
pub fn methods(sources: &Sources, cases: &[Exception], ceilings: &[Ceiling]) -> Vec<Violation> {
    let mut used = vec![false; cases.len()];
    let counts: Vec<(String, usize)> = methods_by_type(sources, cases, &mut used)
        .into_iter()
        .map(|((name, owner), number)| (format!("{name}::{owner}"), number))
        .filter(|(owner, number)| *number > METHODS || ceilings.iter().any(|ceiling| ceiling.of == owner))
        .collect();
    let advice = "give part of its state and their functions to a type of its own";
    let mut found = against(&counts, ceilings, METHODS, "functions", advice);
    found.extend(Exception::unused(cases, &used));
    found
}

/// Top-level modules of each crate that import each other in circles.
pub fn circles(sources: &Sources, ceilings: &[Ceiling]) -> Vec<Violation> {
    let mut counts = Vec::new();
    for (name, graph) in top_level(sources) {
        let number = in_circles(&graph).len();
        if number > 0 || ceilings.iter().any(|ceiling| ceiling.of == name) {
            counts.push((name.to_owned(), number));
        }
    }
    against(
        &counts,
        ceilings,
        0,
        "top-level modules in circles",
        "hand in what the lower module needs of the upper one",
    )
}

/// Files of each crate that import each other in circles, parents and children aside.
pub fn file_circles(sources: &Sources, ceilings: &[Ceiling]) -> Vec<Violation> {
    let mut counts = Vec::new();
    let mut arrows = BTreeMap::new();
    for name in crates(sources) {
        let files: Vec<&Source> = sources.of_crate(name).collect();
        let graph = file_graph(&files);
        let number = in_circles(&graph).len();
        if number > 0 || ceilings.iter().any(|ceiling| ceiling.of == name) {
            counts.push((name.to_owned(), number));
            arrows.insert(name, circular_arrows(&graph));
        }
    }
    let mut found =
        against(&counts, ceilings, 0, "files in circles", "hand in what the lower file needs of the upper one");
    for violation in &mut found {
        if let Some((_, arrows)) = arrows.iter().find(|(name, _)| violation.text.starts_with(&format!("`{name}`"))) {
            violation.text = format!("{}; {}", violation.text, arrows.join(", "));
        }
    }
    found
}

/// Imports of a crate whose modules have an order that go up: from a file to a top-level module above its own.
pub fn arrows_up(sources: &Sources, orders: &[Arrows]) -> Vec<Violation> {
    let mut found = Vec::new();
    for order in orders {
        let level = |module: &str| order.order.iter().position(|name| *name == module);
        let mut up = BTreeSet::new();
        let files: Vec<&Source> = sources.of_crate(order.of).collect();
        let modules = Modules::of(&files);
        for source in &files {
            let (_, path) = source.module();
            let Some(&own) = path.first() else { continue };
            let Some(from) = level(own) else {
                let text = format!("module `{own}` has no place in the order of `{}` in {LIST}", order.of);
                found.push(Violation::new(&source.path, 0, text));
                continue;
            };
            for target in modules.imports(source) {
                if let Some(top) = target.first()
                    && level(top).is_some_and(|to| to < from)
                {
                    up.insert((source.path.clone(), top.clone()));
                }
            }
        }
        let ceiling: Vec<Ceiling> = Some(Ceiling { of: order.of, count: order.count })
            .into_iter()
            .filter(|ceiling| ceiling.count > 0)
            .collect();
        let advice = "a module imports only modules below it in the order";
        found.extend(against(&[(order.of.to_owned(), up.len())], &ceiling, 0, "arrows up", advice));
    }
    found
}

/// Compares counts with ceilings: a count without a ceiling stays within `limit`, one with a ceiling is equal to it.
pub(super) fn against(
    counts: &[(String, usize)],
    ceilings: &[Ceiling],
    limit: usize,
    noun: &str,
    advice: &str,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for (of, number) in counts {
        let ceiling = ceilings.iter().find(|ceiling| ceiling.of == of).map(|ceiling| ceiling.count);
        let text = match ceiling {
            None if *number > limit => format!("`{of}` has {number} {noun}, more than {limit}: {advice}"),
            Some(most) if *number > most => {
                format!("`{of}` has {number} {noun}, more than its ceiling of {most}: {advice}")
            }
            Some(most) if *number <= limit => {
                format!("`{of}` has {number} {noun}, within the limit: delete its ceiling of {most}")
            }
            Some(most) if *number < most => format!("`{of}` has {number} {noun}: lower its ceiling from {most}"),
            _ => continue,
        };
        found.push(Violation::new(LIST, 0, text));
    }
    for ceiling in ceilings.iter().filter(|ceiling| !counts.iter().any(|(of, _)| ceiling.of == of)) {
        found.push(Violation::new(LIST, 0, format!("there is no `{}` any more: delete its ceiling", ceiling.of)));
    }
    found
}

/// How many functions work on each type, by crate and type. Free functions in a folder of cases are not counted.
fn methods_by_type<'a>(
    sources: &'a Sources,
    cases: &[Exception],
    used: &mut [bool],
) -> BTreeMap<(&'a str, String), usize> {
    let mut defined: BTreeMap<(&str, &str), Vec<&Source>> = BTreeMap::new();
    let counted = || sources.files.iter().filter(|source| !is_stand_in(&source.path));
    for source in counted() {
        for name in &source.types {
            defined.entry((source.module().0, name)).or_default().push(source);
        }
    }
    let mut counts = BTreeMap::new();
    for source in counted() {
        let (name, _) = source.module();
        let folder = cases.iter().position(|folder| source.path.starts_with(folder.path));
        for method in &source.methods {
            if let Some(used) = folder.filter(|_| method.free).and_then(|folder| used.get_mut(folder)) {
                *used = true;
                continue;
            }
            let short = method.owner.rsplit("::").next().unwrap_or_default();
            let owner = match defined.get(&(name, short)).map(Vec::as_slice) {
                None | Some([]) if !method.inherent => continue,
                None | Some([] | [_]) => short.to_owned(),
                Some(several) => one_of(several, source, method, short),
            };
            *counts.entry((name, owner)).or_default() += 1;
        }
    }
    counts
}

/// The type that a function works on, where several have its name: the type of the same file, or of the file that it is
/// imported from.
fn one_of(several: &[&Source], source: &Source, method: &Method, short: &str) -> String {
    let path = resolve(source, &expand(source, &method.owner));
    let home = match path {
        Some(path) if !several.iter().any(|file| file.path == source.path) => path[..path.len() - 1].join("::"),
        _ => source.module().1.join("::"),
    };
    if home.is_empty() { short.to_owned() } else { format!("{home}::{short}") }
}

/// A path as written with its first name replaced by what the file's imports say of it.
fn expand(source: &Source, written: &str) -> String {
    let (first, rest) = written.split_once("::").unwrap_or((written, ""));
    let import = source.imports.iter().find(|import| import.name == first);
    let Some(import) = import else { return written.to_owned() };
    if rest.is_empty() { import.path.clone() } else { format!("{}::{rest}", import.path) }
}

/// A path below the crate, `None` for one that leads elsewhere.
fn resolve(source: &Source, path: &str) -> Option<Vec<String>> {
    let (_, module) = source.module();
    let mut at: Vec<String> = module.iter().map(|&name| name.to_owned()).collect();
    let mut names = path.split("::").peekable();
    match *names.peek()? {
        "crate" => {
            at.clear();
            names.next();
        }
        "self" => {
            names.next();
        }
        "super" => {
            while names.next_if_eq(&"super").is_some() {
                at.pop();
            }
        }
        _ => return None,
    }
    at.extend(names.map(str::to_owned));
    Some(at)
}

/// Names that a path is followed through at most, from one file that imports it to the next.
const REEXPORTS: usize = 8;

/// The modules of one crate that have a file.
struct Modules<'a> {
    files: BTreeMap<Vec<&'a str>, &'a Source>,
}

impl<'a> Modules<'a> {
    fn of(files: &[&'a Source]) -> Self {
        Self { files: files.iter().map(|source| (source.module().1, *source)).collect() }
    }

    /// The modules that a file imports or names: for each, its path.
    fn imports(&self, source: &Source) -> BTreeSet<Vec<String>> {
        let (_, own) = source.module();
        let imports = source.imports.iter().map(|import| import.path.clone());
        let written = source.paths().into_iter().map(|written| written.path).filter(|path| path.contains("::"));
        let mut found = BTreeSet::new();
        for path in imports.chain(written) {
            if let Some(path) = resolve(source, &path)
                && let Some(file) = self.file_of(&path)
                && file != own
            {
                found.insert(file);
            }
        }
        found
    }

    /// The file that a path leads into. A name that a file on the way imports leads to the file it is imported from.
    fn file_of(&self, path: &[String]) -> Option<Vec<String>> {
        self.followed(path, REEXPORTS)
    }

    fn followed(&self, path: &[String], most: usize) -> Option<Vec<String>> {
        let known = |length: &usize| {
            let names: Vec<&str> = path[..*length].iter().map(String::as_str).collect();
            self.files.get(&names).map(|source| (*length, *source))
        };
        let (length, source) = (0..=path.len()).rev().find_map(|length| known(&length))?;
        let import = path.get(length).and_then(|name| source.imports.iter().find(|import| import.name == *name));
        let behind = import.filter(|_| most > 0).and_then(|import| {
            let mut target = self.target_of(source, &import.path)?;
            target.extend_from_slice(&path[length + 1..]);
            (target != path).then(|| self.followed(&target, most - 1)).flatten()
        });
        behind.or_else(|| (length > 0).then(|| path[..length].to_vec()))
    }

    /// The path below the crate that an import of a file names; a first name without a prefix is one of its children.
    fn target_of(&self, source: &Source, written: &str) -> Option<Vec<String>> {
        resolve(source, written).or_else(|| {
            let (_, own) = source.module();
            let child: Vec<&str> = own.iter().copied().chain(written.split("::").next()).collect();
            self.files
                .contains_key(&child)
                .then(|| own.iter().copied().chain(written.split("::")).map(str::to_owned).collect())
        })
    }
}

type Graph = BTreeMap<String, BTreeSet<String>>;

/// The names of all crates.
pub(super) fn crates(sources: &Sources) -> BTreeSet<&str> {
    sources.files.iter().map(|source| source.module().0).collect()
}

/// Imports between top-level modules, by crate.
fn top_level(sources: &Sources) -> BTreeMap<&str, Graph> {
    let mut graphs = BTreeMap::new();
    for name in crates(sources) {
        let files: Vec<&Source> = sources.of_crate(name).collect();
        let modules = Modules::of(&files);
        let mut graph = Graph::new();
        for source in &files {
            let (_, own) = source.module();
            let Some(&own) = own.first() else { continue };
            let targets = graph.entry(own.to_owned()).or_default();
            targets.extend(modules.imports(source).into_iter().filter_map(|path| path.into_iter().next()));
            targets.remove(own);
        }
        graphs.insert(name, graph);
    }
    graphs
}

/// Imports between files. Imports between a module and its own children are left out.
fn file_graph(files: &[&Source]) -> Graph {
    let modules = Modules::of(files);
    let mut graph = Graph::new();
    for source in files {
        let own: Vec<String> = source.module().1.iter().map(|&name| name.to_owned()).collect();
        let targets =
            modules.imports(source).into_iter().filter(|path| !path.starts_with(&own) && !own.starts_with(path));
        graph.insert(own.join("::"), targets.map(|path| path.join("::")).collect());
    }
    graph
}

/// The nodes to which ways lead from a node.
fn reached<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a str> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = graph.get(from).into_iter().flatten().map(String::as_str).collect();
    while let Some(node) = open.pop() {
        if seen.insert(node) {
            open.extend(graph.get(node).into_iter().flatten().map(String::as_str));
        }
    }
    seen
}

/// The nodes of a graph from which a way leads back to themselves.
fn in_circles(graph: &Graph) -> BTreeSet<&str> {
    graph.keys().map(String::as_str).filter(|node| reached(graph, node).contains(node)).collect()
}

/// The arrows of a graph that belong to a circle, for people.
fn circular_arrows(graph: &Graph) -> Vec<String> {
    let arrows = graph.iter().flat_map(|(from, targets)| targets.iter().map(move |to| (from, to)));
    let circular = arrows.filter(|(from, to)| reached(graph, to).contains(from.as_str()));
    circular.map(|(from, to)| format!("{from} -> {to}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn sources(files: &[(&str, &str)]) -> Sources {
        Sources::load(&Tree::of(files)).unwrap()
    }

    fn list_of(methods: usize) -> String {
        (0..methods).map(|n| format!("    fn m{n}(&self) {{}}")).collect::<Vec<_>>().join("\n")
    }

    fn type_with(methods: usize) -> Sources {
        let other = "fn other(engine: &mut Engine) {}\n";
        let list = list_of(methods - 2);
        let text =
            format!("struct Engine;\nimpl Engine {{\n{list}\n}}\nimpl Drop for Engine {{ fn drop(&mut self) {{}} }}\n");
        sources(&[
            ("crates/x/src/lib.rs", "mod a;\nmod b;\n"),
            ("crates/x/src/a.rs", &text),
            ("crates/x/src/b.rs", other),
        ])
    }

    #[test]
    fn a_type_with_too_many_functions_is_caught() {
        assert!(methods(&type_with(40), &[], &[]).is_empty());
        assert_eq!(methods(&type_with(41), &[], &[]).len(), 1);
    }

    #[test]
    fn a_trait_with_too_many_functions_is_caught() {
        let declaring = |count: usize| {
            let list = (0..count - 1).map(|n| format!("    fn m{n}(&self);")).collect::<Vec<_>>().join("\n");
            let text = format!("trait Part {{\n{list}\n}}\nfn other(part: &dyn Part) {{}}\n");
            sources(&[("crates/x/src/lib.rs", &text)])
        };
        assert!(methods(&declaring(40), &[], &[]).is_empty());
        assert_eq!(methods(&declaring(41), &[], &[]).len(), 1);
    }

    #[test]
    fn cases_do_not_count_as_functions_of_their_input() {
        let cases = |path| [Exception { path, function: "", reason: "cases" }];
        assert!(methods(&type_with(41), &cases("crates/x/src/b"), &[]).is_empty());
        assert_eq!(methods(&type_with(42), &cases("crates/x/src/b"), &[]).len(), 1);
        assert_eq!(methods(&type_with(40), &cases("crates/y/"), &[]).len(), 1, "it is not needed");
    }

    #[test]
    fn a_ceiling_is_neither_below_nor_above_the_count() {
        let ceiling = |count| [Ceiling { of: "x::Engine", count }];
        assert!(methods(&type_with(41), &[], &ceiling(41)).is_empty());
        assert_eq!(methods(&type_with(42), &[], &ceiling(41)).len(), 1);
        assert_eq!(methods(&type_with(41), &[], &ceiling(42)).len(), 1);
        assert_eq!(methods(&type_with(40), &[], &ceiling(41)).len(), 1);
    }

    #[test]
    fn two_types_of_one_name_are_counted_apart() {
        let list = list_of(25);
        let text = format!("struct State;\nimpl State {{\n{list}\n}}\n");
        let both = sources(&[
            ("crates/x/src/lib.rs", "mod a;\nmod b;\n"),
            ("crates/x/src/a.rs", &text),
            ("crates/x/src/b.rs", &text),
        ]);
        assert!(methods(&both, &[], &[]).is_empty());
    }

    fn pair(a: &str, b: &str) -> Sources {
        sources(&[("crates/x/src/lib.rs", "mod a;\nmod b;\n"), ("crates/x/src/a.rs", a), ("crates/x/src/b/mod.rs", b)])
    }

    #[test]
    fn modules_that_import_each_other_are_caught() {
        let one_way = pair("use crate::b::B;\n", "");
        assert!(circles(&one_way, &[]).is_empty());
        let both_ways = pair("use crate::b::B;\n", "fn f() { crate::a::g(); }\n");
        assert_eq!(circles(&both_ways, &[]).len(), 1);
        assert!(circles(&both_ways, &[Ceiling { of: "x", count: 2 }]).is_empty());
        assert!(file_circles(&both_ways, &[Ceiling { of: "x", count: 2 }]).is_empty());
    }

    #[test]
    fn a_reexport_of_the_parent_hides_no_circle() {
        let files = |inner: &str| {
            sources(&[
                ("crates/x/src/lib.rs", "mod m;\n"),
                ("crates/x/src/m/mod.rs", "mod a;\nmod b;\npub use a::A;\n"),
                ("crates/x/src/m/a.rs", "use super::b::B;\n"),
                ("crates/x/src/m/b.rs", inner),
            ])
        };
        assert!(file_circles(&files(""), &[]).is_empty());
        let found = file_circles(&files("use super::A;\n"), &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].text.contains("m::b -> m::a"), "{}", found[0].text);
    }

    #[test]
    fn an_import_against_the_order_is_caught() {
        let order = |count| [Arrows { of: "x", order: &["a", "b"], count }];
        assert!(arrows_up(&pair("use crate::b::B;\n", ""), &order(0)).is_empty());
        assert_eq!(arrows_up(&pair("", "use crate::a::A;\n"), &order(0)).len(), 1);
        assert!(arrows_up(&pair("", "use crate::a::A;\n"), &order(1)).is_empty());
    }
}
