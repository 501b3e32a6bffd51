//! Rust sources with their tests cut out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::attributes;
use crate::tree::{Tree, TreeError};

/// One token of a source file, with groups flattened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The token as written.
    pub text: String,
    /// The line it starts in.
    pub line: usize,
}

/// A function with a body.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name, without the type it belongs to.
    pub name: String,
    /// The line of its signature.
    pub line: usize,
    /// Lines from the signature to the closing brace.
    pub lines: usize,
}

/// A function that works on a type or a trait: a method of an `impl`, one that a trait declares, or a free function whose first parameter
/// borrows the type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// The type as written, without parameters: `Engine`, `super::Engine`.
    pub owner: String,
    /// The name of the function.
    pub name: String,
    /// The line of its signature.
    pub line: usize,
    /// Whether it is a free function.
    pub free: bool,
    /// Whether its block has no trait: the type is one of its crate then, also if a macro declares it.
    pub inherent: bool,
}

/// A name that a `use` brings in.
#[derive(Clone, Debug)]
pub struct Import {
    /// The name in this file; `*` for a glob.
    pub name: String,
    /// The full path.
    pub path: String,
    /// The line.
    pub line: usize,
}

/// A path as written in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The path, its first name replaced by what the file's imports say of it.
    pub path: String,
    /// The line it starts in.
    pub line: usize,
    /// The position of the token behind it.
    pub end: usize,
}

/// A module that is declared here and lives in its own file.
#[derive(Clone, Debug)]
struct Child {
    name: String,
    test: bool,
}

/// One Rust file of a crate's `src`, tests cut out.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Path relative to the repository.
    pub path: String,
    /// Lines that do not belong to a test.
    pub lines: usize,
    /// Tokens outside tests.
    pub tokens: Vec<Token>,
    /// Functions outside tests.
    pub functions: Vec<Function>,
    /// Index expressions outside tests and macros: the line and the function that holds it.
    pub indexing: Vec<(usize, String)>,
    /// The imports of `use`, outside tests.
    pub imports: Vec<Import>,
    /// Modules written inside the file, with their lines.
    pub inline_modules: Vec<(String, usize)>,
    /// Functions that work on a type, outside tests.
    pub methods: Vec<Method>,
    /// Structs, enums, unions and traits that the file defines, outside tests.
    pub types: Vec<String>,
    children: Vec<Child>,
}

impl Source {
    /// Parses one file.
    ///
    /// # Errors
    /// When it is not Rust.
    pub fn parse(path: &str, text: &str) -> Result<Self, TreeError> {
        let wrong = |line: usize, fault: String| TreeError::NoRust { path: path.to_owned(), line, fault };
        let file = syn::parse_file(text).map_err(|error| wrong(error.span().start().line, error.to_string()))?;
        let mut reader = Reader::default();
        if file.attrs.iter().any(is_test_attribute) {
            reader.tests.push(1..=usize::MAX);
        } else {
            reader.visit_file(&file);
        }
        let stream: TokenStream =
            text.parse().map_err(|error: LexError| wrong(error.span().start().line, error.to_string()))?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        tokens.retain(|token: &Token| !reader.tests.iter().any(|test| test.contains(&token.line)));
        let lines =
            (1..=text.lines().count()).filter(|line| !reader.tests.iter().any(|test| test.contains(line))).count();
        Ok(Self {
            path: path.to_owned(),
            lines,
            tokens,
            functions: reader.functions,
            indexing: reader.indexing,
            imports: reader.imports,
            inline_modules: reader.modules,
            methods: reader.methods,
            types: reader.types,
            children: reader.children,
        })
    }

    /// Paths as written outside `use` items.
    pub fn paths(&self) -> Vec<Written> {
        let known: BTreeMap<&str, &str> =
            self.imports.iter().map(|import| (import.name.as_str(), import.path.as_str())).collect();
        let mut paths = Vec::new();
        let mut position = 0;
        while position < self.tokens.len() {
            let (names, line, end) = path_at(&self.tokens, position);
            position = end;
            let Some(first) = names.first() else { continue };
            let mut path = known.get(first.as_str()).map_or_else(|| first.clone(), |&path| path.to_owned());
            for name in &names[1..] {
                path.push_str("::");
                path.push_str(name);
            }
            paths.push(Written { path, line, end });
        }
        paths
    }

    /// The number of generic parameters in angle brackets at a position, `None` when there are no brackets.
    pub fn parameters(&self, position: usize) -> Option<usize> {
        let open = if self.reads(position, &[":", ":", "<"]) { position + 2 } else { position };
        if !self.reads(open, &["<"]) {
            return None;
        }
        // Angle brackets and the others do not overlap in a type, so one depth serves both.
        let (mut depth, mut number, mut before) = (0_usize, 1, "");
        for token in &self.tokens[open..] {
            match token.text.as_str() {
                "<" | "(" | "[" | "{" => depth += 1,
                ">" if before == "-" => {}
                ">" | ")" | "]" | "}" => depth = depth.saturating_sub(1),
                "," if depth == 1 => number += 1,
                _ => {}
            }
            if depth == 0 {
                return Some(number);
            }
            before = &token.text;
        }
        None
    }

    /// Whether the tokens from `position` on read as `pattern`.
    pub fn reads(&self, position: usize, pattern: &[&str]) -> bool {
        self.tokens.len() >= position + pattern.len()
            && self.tokens[position..].iter().zip(pattern).all(|(token, &text)| token.text == text)
    }

    /// The name of the crate's folder, and the path of this file's module below the crate: empty for the root.
    pub fn module(&self) -> (&str, Vec<&str>) {
        let mut parts = self.path.trim_end_matches(".rs").split('/').skip(1);
        let name = parts.next().unwrap_or_default();
        let mut path: Vec<&str> = parts.skip(1).collect();
        if matches!(path.last(), Some(&("lib" | "main" | "mod"))) {
            path.pop();
        }
        (name, path)
    }

    /// The folder in which the files of this file's modules lie.
    fn folder(&self) -> String {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        match name {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            _ => format!("{folder}/{}", name.trim_end_matches(".rs")),
        }
    }
}

/// All sources of the crates, without files that are tests as a whole, and the files that no module declares.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The files, sorted by path.
    pub files: Vec<Source>,
    /// Files below `src` that no `mod` reaches.
    pub orphans: Vec<String>,
}

impl Sources {
    /// Parses every `crates/*/src/**/*.rs` of the tree.
    ///
    /// # Errors
    /// When a file is not Rust.
    pub fn load(tree: &Tree) -> Result<Self, TreeError> {
        let mut all = Vec::new();
        for file in tree.files.iter().filter(|file| is_source(&file.path)) {
            all.push(Source::parse(&file.path, &file.text)?);
        }
        let paths: BTreeSet<String> = all.iter().map(|source| source.path.clone()).collect();
        let (mut declared, mut tests) = (BTreeSet::new(), Vec::new());
        for source in &all {
            for child in &source.children {
                let stem = format!("{}/{}", source.folder(), child.name);
                if child.test {
                    tests.push(stem.clone());
                }
                declared.insert(format!("{stem}.rs"));
                declared.insert(format!("{stem}/mod.rs"));
                declared.insert(format!("{stem}{STAND_IN}"));
            }
        }
        let orphans = paths.iter().filter(|path| !is_root(path) && !declared.contains(*path)).cloned().collect();
        all.retain(|source| {
            !tests
                .iter()
                .any(|stem| source.path == format!("{stem}.rs") || source.path.starts_with(&format!("{stem}/")))
        });
        Ok(Self { files: all, orphans })
    }

    /// The files of one crate.
    pub fn of_crate<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Source> {
        let prefix = format!("crates/{name}/src/");
        self.files.iter().filter(move |source| source.path.starts_with(&prefix))
    }
}

/// The end of the name of a stand-in: `quic_absent.rs` takes the place of the module `quic` in a program without its feature.
const STAND_IN: &str = "_absent.rs";

/// Whether a file takes the place of another one. No program has both, so that its types and functions are not counted.
pub fn is_stand_in(path: &str) -> bool {
    path.ends_with(STAND_IN)
}

/// Whether a path lies in the `src` of a crate directly below `crates`.
fn is_source(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("crates")
        && parts.next().is_some()
        && parts.next() == Some("src")
        && path.rsplit_once('.').is_some_and(|(_, extension)| extension == "rs")
}

/// Whether a file is where a crate or a binary begins.
fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.contains("/src/bin/")
}

fn flatten(stream: TokenStream, into: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                into.push(Token { text: open.to_owned(), line });
                flatten(group.stream(), into);
                into.push(Token { text: close.to_owned(), line: group.span_close().start().line });
            }
            other => into.push(Token { text: other.to_string(), line }),
        }
    }
}

fn is_name(token: &Token) -> bool {
    token.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// The path that starts at a position (empty when none does), its line, and where to go on.
fn path_at(tokens: &[Token], start: usize) -> (Vec<String>, usize, usize) {
    let Some(first) = tokens.get(start).filter(|token| is_name(token)) else {
        return (Vec::new(), 0, start + 1);
    };
    let mut names = vec![first.text.clone()];
    let mut position = start + 1;
    while let [a, b, name, ..] = &tokens[position..]
        && a.text == ":"
        && b.text == ":"
        && is_name(name)
    {
        names.push(name.text.clone());
        position += 3;
    }
    (names, first.line, position)
}

/// Whether an attribute marks an item for tests only.
fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    let path = attribute.path();
    if path.segments.last().is_some_and(|segment| segment.ident == "test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    let mut words = Vec::new();
    flatten(list.tokens.clone(), &mut words);
    let says = |word: &str| words.iter().any(|token| token.text == word);
    path.is_ident("cfg") && says("test") && !says("not")
}

/// Collects the facts for the rules from a syntax tree.
#[derive(Default)]
struct Reader {
    tests: Vec<RangeInclusive<usize>>,
    functions: Vec<Function>,
    indexing: Vec<(usize, String)>,
    imports: Vec<Import>,
    modules: Vec<(String, usize)>,
    methods: Vec<Method>,
    types: Vec<String>,
    children: Vec<Child>,
    inside: Vec<String>,
}

impl Reader {
    /// Whether an item is a test; then its lines are noted.
    fn skip(&mut self, attributes: &[syn::Attribute], spanned: &impl Spanned) -> bool {
        if !attributes.iter().any(is_test_attribute) {
            return false;
        }
        let span = spanned.span();
        self.tests.push(span.start().line..=span.end().line);
        true
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (first, last) = (signature.span().start().line, block.span().end().line);
        let name = signature.ident.to_string();
        self.functions.push(Function { name: name.clone(), line: first, lines: last - first + 1 });
        self.inside.push(name);
        self.visit_block(block);
        self.inside.pop();
    }

    /// Notes a function as one of the type it works on.
    fn method(&mut self, owner: &syn::Type, signature: &syn::Signature, block: Option<&syn::ItemImpl>) {
        let path = match owner {
            syn::Type::Path(owner) => &owner.path,
            syn::Type::TraitObject(owner) => match owner.bounds.first() {
                Some(syn::TypeParamBound::Trait(bound)) => &bound.path,
                _ => return,
            },
            _ => return,
        };
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let (name, line) = (signature.ident.to_string(), signature.span().start().line);
        let inherent = block.is_some_and(|block| block.trait_.is_none());
        self.methods.push(Method { owner: names.join("::"), name, line, free: block.is_none(), inherent });
    }

    /// Notes the functions that a trait declares. Functions of its implementations count for their types.
    fn declared(&mut self, item: &syn::ItemTrait) {
        let owner = item.ident.to_string();
        self.types.push(owner.clone());
        for item in &item.items {
            if let syn::TraitItem::Fn(function) = item {
                let (name, line) = (function.sig.ident.to_string(), function.sig.span().start().line);
                self.methods.push(Method { owner: owner.clone(), name, line, free: false, inherent: true });
            }
        }
    }

    /// Notes the types of an item: that it defines one, or has functions that work on one.
    fn of_types(&mut self, item: &syn::Item) {
        match item {
            syn::Item::Struct(item) => self.types.push(item.ident.to_string()),
            syn::Item::Enum(item) => self.types.push(item.ident.to_string()),
            syn::Item::Union(item) => self.types.push(item.ident.to_string()),
            syn::Item::Trait(item) => self.declared(item),
            syn::Item::Impl(block) => {
                for item in &block.items {
                    if let syn::ImplItem::Fn(function) = item
                        && !function.attrs.iter().any(is_test_attribute)
                    {
                        self.method(&block.self_ty, &function.sig, Some(block));
                    }
                }
            }
            syn::Item::Fn(function) => {
                if let Some(syn::FnArg::Typed(first)) = function.sig.inputs.first()
                    && let syn::Type::Reference(borrow) = &*first.ty
                {
                    self.method(&borrow.elem, &function.sig, None);
                }
            }
            _ => {}
        }
    }

    fn import(&mut self, prefix: &str, tree: &syn::UseTree) {
        let join = |name: &str| {
            if prefix.is_empty() { name.to_owned() } else { format!("{prefix}::{name}") }
        };
        match tree {
            syn::UseTree::Path(path) => self.import(&join(&path.ident.to_string()), &path.tree),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.import(prefix, item)),
            syn::UseTree::Name(name) if name.ident == "self" => {
                let local = prefix.rsplit("::").next().unwrap_or(prefix).to_owned();
                self.imports.push(Import { name: local, path: prefix.to_owned(), line: name.span().start().line });
            }
            syn::UseTree::Name(name) => {
                let path = join(&name.ident.to_string());
                self.imports.push(Import { name: name.ident.to_string(), path, line: name.span().start().line });
            }
            syn::UseTree::Rename(rename) => {
                let path = join(&rename.ident.to_string());
                self.imports.push(Import { name: rename.rename.to_string(), path, line: rename.span().start().line });
            }
            syn::UseTree::Glob(glob) => {
                self.imports.push(Import { name: "*".to_owned(), path: join("*"), line: glob.span().start().line });
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = attributes::of_item(item);
        if let syn::Item::Mod(module) = item
            && module.content.is_none()
        {
            let test = attributes.iter().any(is_test_attribute);
            self.children.push(Child { name: module.ident.to_string(), test });
        }
        if self.skip(attributes, item) {
            return;
        }
        self.of_types(item);
        match item {
            syn::Item::Fn(function) => self.function(&function.sig, &function.block),
            syn::Item::Use(import) => self.import("", &import.tree),
            syn::Item::Mod(module) if module.content.is_some() => {
                self.modules.push((module.ident.to_string(), module.span().start().line));
                visit::visit_item(self, item);
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !self.skip(&function.attrs, function) {
            self.function(&function.sig, &function.block);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default
            && !self.skip(&function.attrs, function)
        {
            self.function(&function.sig, block);
        }
    }

    fn visit_expr_index(&mut self, index: &'ast syn::ExprIndex) {
        let function = self.inside.last().cloned().unwrap_or_default();
        self.indexing.push((index.bracket_token.span.open().start().line, function));
        visit::visit_expr_index(self, index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "use std::{net, time::Instant};\n\nfn long() {\n    net::lookup();\n    Instant::now();\n}\n\n\
                          #[cfg(test)]\nmod tests {\n    fn inside() { std::thread::sleep(); }\n}\n";

    #[test]
    fn tests_are_cut_out() {
        let source = Source::parse("crates/x/src/lib.rs", SAMPLE).unwrap();
        assert_eq!(source.lines, 7);
        assert_eq!(source.functions.len(), 1);
        assert_eq!(source.functions[0].lines, 4);
        assert!(!source.tokens.iter().any(|token| token.text == "sleep"));
    }

    #[test]
    fn paths_are_resolved_through_imports() {
        let source = Source::parse("crates/x/src/lib.rs", SAMPLE).unwrap();
        let paths: Vec<(String, usize)> =
            source.paths().into_iter().map(|written| (written.path, written.line)).collect();
        assert!(paths.contains(&("std::net::lookup".to_owned(), 4)));
        assert!(paths.contains(&("std::time::Instant::now".to_owned(), 5)));
    }

    #[test]
    fn declared_tests_are_no_source_and_others_are_orphans() {
        let tree = Tree::of(&[
            ("crates/x/src/lib.rs", "mod a;\n#[cfg(test)]\nmod tests;\n"),
            ("crates/x/src/a.rs", "mod b;\n"),
            ("crates/x/src/a/b.rs", ""),
            ("crates/x/src/tests.rs", "mod deep;\n"),
            ("crates/x/src/tests/deep.rs", ""),
            ("crates/x/src/lost.rs", ""),
        ]);
        let sources = Sources::load(&tree).unwrap();
        let mut paths: Vec<&str> = sources.files.iter().map(|source| source.path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["crates/x/src/a.rs", "crates/x/src/a/b.rs", "crates/x/src/lib.rs", "crates/x/src/lost.rs"]);
        assert_eq!(sources.orphans, ["crates/x/src/lost.rs"]);
    }
}
