//! The part of HOCON that EMQX and NanoMQ write their configurations in, as settings with their lines.
//!
//! Objects, lists, texts with and without quotes, comments, `include`, and later values that replace earlier ones. A
//! value with a substitution (`${...}`) is not resolved: its setting says so. No library is used, since none gives the
//! line of a value, which the report needs.

use std::io;

use crate::entry::{Entry, Form};

/// Deepest nesting of objects, lists and included files.
const MAX_DEPTH: usize = 32;

/// Most settings of a file with its included files.
const MAX_ENTRIES: usize = 20_000;

/// Reads an included file by its name.
pub(crate) type Read<'a> = &'a dyn Fn(&str) -> io::Result<String>;

/// Why a text is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct HoconError {
    /// The file.
    file: String,
    /// The line, from 1.
    line: usize,
    /// The fault.
    problem: String,
}

/// Reads a text.
///
/// # Errors
/// When it is no HOCON, an included file cannot be read, or it nests too deeply.
pub(crate) fn parse(file: &str, text: &str, read: Read<'_>) -> Result<Vec<Entry>, HoconError> {
    let mut entries = Vec::new();
    parse_into(file, text, "", 0, read, &mut entries)?;
    Ok(entries)
}

fn parse_into(
    file: &str,
    text: &str,
    prefix: &str,
    depth: usize,
    read: Read<'_>,
    entries: &mut Vec<Entry>,
) -> Result<(), HoconError> {
    let chars: Vec<char> = text.trim_start_matches('\u{feff}').chars().collect();
    let mut parser = Parser { file, chars, at: 0, line: 1, read, entries, depth };
    parser.skip();
    if parser.peek() == Some('{') {
        parser.at += 1;
        parser.members(prefix, true)?;
    } else {
        parser.members(prefix, false)?;
    }
    parser.skip();
    if parser.peek().is_some() { Err(parser.error("something follows the end")) } else { Ok(()) }
}

struct Parser<'a> {
    file: &'a str,
    chars: Vec<char>,
    at: usize,
    line: usize,
    read: Read<'a>,
    entries: &'a mut Vec<Entry>,
    depth: usize,
}

/// A value before it has its path.
enum Scalar {
    Text(String),
    Unknown(String),
}

impl Parser<'_> {
    fn error(&self, problem: impl Into<String>) -> HoconError {
        HoconError { file: self.file.to_owned(), line: self.line, problem: problem.into() }
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn follows(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, c)| self.chars.get(self.at + index) == Some(&c))
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn skip_comment(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    fn at_comment(&self) -> bool {
        self.peek() == Some('#') || self.follows("//")
    }

    /// Skips blanks, line ends, commas and comments.
    fn skip(&mut self) {
        loop {
            if self.at_comment() {
                self.skip_comment();
            } else if self.peek().is_some_and(|c| c.is_whitespace() || c == ',') {
                self.next();
            } else {
                return;
            }
        }
    }

    /// Skips blanks within a line.
    fn blanks(&mut self) {
        while self.peek().is_some_and(|c| c != '\n' && c.is_whitespace()) {
            self.at += 1;
        }
    }

    fn deeper(&mut self) -> Result<(), HoconError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.error(format!("more than {MAX_DEPTH} levels"))) } else { Ok(()) }
    }

    /// Members of an object, up to its brace or the end of the text.
    fn members(&mut self, prefix: &str, braced: bool) -> Result<(), HoconError> {
        self.deeper()?;
        loop {
            self.skip();
            match self.peek() {
                None if braced => return Err(self.error("an object has no end")),
                None => break,
                Some('}') if braced => {
                    self.at += 1;
                    break;
                }
                Some('}' | ']' | '[' | '{') => return Err(self.error("a bracket without its counterpart")),
                Some(_) if self.at_include() => self.include(prefix)?,
                Some(_) => self.member(prefix)?,
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn at_include(&self) -> bool {
        self.follows("include") && self.chars.get(self.at + 7).is_some_and(|c| c.is_whitespace() || *c == '"')
    }

    fn include(&mut self, prefix: &str) -> Result<(), HoconError> {
        self.at += "include".len();
        self.blanks();
        for word in ["required(", "file(", "\""] {
            if self.follows(word) && word != "\"" {
                self.at += word.len();
            }
        }
        if self.peek() != Some('"') {
            return Err(self.error("`include` needs a file name in quotes"));
        }
        let name = self.quoted()?;
        while self.peek() == Some(')') {
            self.at += 1;
        }
        self.deeper()?;
        let text = (self.read)(&name).map_err(|error| self.error(format!("cannot read {name}: {error}")))?;
        parse_into(&name, &text, prefix, self.depth, self.read, self.entries)?;
        self.depth -= 1;
        Ok(())
    }

    fn member(&mut self, prefix: &str) -> Result<(), HoconError> {
        let line = self.line;
        let path = join(prefix, &self.key()?);
        self.blanks();
        while self.peek() == Some('\n') {
            self.skip();
        }
        match self.peek() {
            Some('{') => {}
            Some('=' | ':') => self.at += 1,
            Some('+') if self.follows("+=") => return Err(self.error("`+=` is not read: write the whole list")),
            _ => return Err(self.error(format!("`{path}` has no value"))),
        }
        self.skip_to_value();
        self.value(&path, line)
    }

    fn skip_to_value(&mut self) {
        while self.at_comment() || self.peek().is_some_and(char::is_whitespace) {
            if self.at_comment() {
                self.skip_comment();
            } else {
                self.next();
            }
        }
    }

    /// The names of a key, joined by dots.
    fn key(&mut self) -> Result<String, HoconError> {
        let mut key = String::new();
        while let Some(c) = self.peek() {
            match c {
                '"' => key.push_str(&self.quoted()?),
                '=' | ':' | '{' | '}' | '[' | ']' | ',' | '\n' | '+' | '#' => break,
                _ => {
                    key.push(c);
                    self.at += 1;
                }
            }
        }
        let key = key.trim().to_owned();
        if key.is_empty() { Err(self.error("a value without a key")) } else { Ok(key) }
    }

    fn value(&mut self, path: &str, line: usize) -> Result<(), HoconError> {
        match self.peek() {
            Some('{') => {
                self.at += 1;
                self.entries.iter_mut().filter(|entry| entry.path == path).for_each(|entry| entry.replaced = true);
                self.members(path, true)
            }
            Some('[') => {
                self.at += 1;
                self.replace(path);
                self.list(path, line)
            }
            _ => {
                let scalar = self.scalar()?;
                self.replace(path);
                self.push(path, line, scalar, Vec::new(), Form::Text)
            }
        }
    }

    /// Marks the settings at the path or below it as replaced.
    fn replace(&mut self, path: &str) {
        let below = format!("{path}.");
        for entry in self.entries.iter_mut().filter(|entry| entry.path == path || entry.path.starts_with(&below)) {
            entry.replaced = true;
        }
    }

    fn push(
        &mut self,
        path: &str,
        line: usize,
        scalar: Scalar,
        items: Vec<String>,
        form: Form,
    ) -> Result<(), HoconError> {
        if self.entries.len() >= MAX_ENTRIES {
            return Err(self.error(format!("more than {MAX_ENTRIES} settings")));
        }
        let (value, form) = match scalar {
            Scalar::Text(value) => (value, form),
            Scalar::Unknown(value) => (value, Form::Unknown),
        };
        self.entries.push(Entry { items, form, ..Entry::text(self.file, line, path, &value) });
        Ok(())
    }

    /// Elements up to the bracket: texts are one setting, objects and lists one for each of their values.
    fn list(&mut self, path: &str, line: usize) -> Result<(), HoconError> {
        self.deeper()?;
        let (mut items, mut unknown, mut count) = (Vec::new(), false, 0);
        loop {
            self.skip();
            match self.peek() {
                None => return Err(self.error("a list has no end")),
                Some(']') => {
                    self.at += 1;
                    break;
                }
                Some('{' | '[') => {
                    let at = self.line;
                    self.value(&join(path, &count.to_string()), at)?;
                }
                Some(_) => match self.scalar()? {
                    Scalar::Text(text) => items.push(text),
                    Scalar::Unknown(text) => {
                        unknown = true;
                        items.push(text);
                    }
                },
            }
            count += 1;
        }
        self.depth -= 1;
        if !items.is_empty() || count == 0 {
            let text = items.join(", ");
            let scalar = if unknown { Scalar::Unknown(text) } else { Scalar::Text(text) };
            self.push(path, line, scalar, items, Form::List)?;
        }
        Ok(())
    }

    /// A text up to the end of its line, a comma, a bracket or a comment: its parts are put together.
    fn scalar(&mut self) -> Result<Scalar, HoconError> {
        let (mut text, mut unknown, mut quoted) = (String::new(), false, false);
        while let Some(c) = self.peek() {
            match c {
                '"' if self.follows("\"\"\"") => {
                    text.push_str(&self.triple()?);
                    quoted = true;
                }
                '"' => {
                    text.push_str(&self.quoted()?);
                    quoted = true;
                }
                '\n' | ',' | '}' | ']' => break,
                '{' | '[' => return Err(self.error("a text is followed by a bracket")),
                _ if self.at_comment() => break,
                '$' if self.follows("${") => {
                    unknown = true;
                    while self.peek().is_some_and(|c| c != '}' && c != '\n') {
                        text.extend(self.next());
                    }
                    text.extend(self.next());
                }
                _ => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
        let text = if quoted { text.trim_end().to_owned() } else { text.trim().to_owned() };
        if text.is_empty() && !quoted {
            return Err(self.error("a value is missing"));
        }
        Ok(if unknown { Scalar::Unknown(text) } else { Scalar::Text(text) })
    }

    fn triple(&mut self) -> Result<String, HoconError> {
        self.at += 3;
        let mut text = String::new();
        while !self.follows("\"\"\"") {
            text.push(self.next().ok_or_else(|| self.error("a text has no end"))?);
        }
        self.at += 3;
        Ok(text)
    }

    fn quoted(&mut self) -> Result<String, HoconError> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err(self.error("a text has no end")),
                Some('"') => return Ok(text),
                Some('\\') => text.push(match self.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some(c @ ('"' | '\\' | '/')) => c,
                    _ => return Err(self.error("an escape is not known")),
                }),
                Some(c) => text.push(c),
            }
        }
    }
}

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String, usize)>, String> {
        let include = |name: &str| match name {
            "more.conf" => Ok("b = 2".to_owned()),
            "loop.conf" => Ok("include \"loop.conf\"".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        let entries = parse("f", text, &include).map_err(|error| error.to_string())?;
        Ok(entries.into_iter().filter(|entry| !entry.replaced).map(|it| (it.path, it.value, it.line)).collect())
    }

    fn of(text: &str) -> Vec<String> {
        read(text).unwrap().into_iter().map(|(path, value, line)| format!("{line} {path}={value}")).collect()
    }

    #[test]
    fn objects_lists_and_texts_have_their_lines() {
        let text =
            "a.b {\n  c = 1 # one\n  d: \"x # y\"\n}\nl = [\n  {n = 1}, {n = 2}\n]\nt = [a, \"b\"]\nz = 5 MB // end";
        assert_eq!(of(text), ["2 a.b.c=1", "3 a.b.d=x # y", "6 l.0.n=1", "6 l.1.n=2", "8 t=a, b", "9 z=5 MB"]);
        assert_eq!(of("{\"a\" : {\"b\" : true}, c : []}"), ["1 a.b=true", "1 c="]);
        assert_eq!(of("s = \"\"\"x\ny\"\"\"\nu = ok"), ["1 s=x\ny", "3 u=ok"]);
    }

    #[test]
    fn later_values_replace_earlier_ones() {
        assert_eq!(of("a {b = 1, c = 2}\na.b = 3"), ["1 a.c=2", "2 a.b=3"]);
        assert_eq!(of("a = [{b = 1}]\na = []"), ["2 a="]);
        assert_eq!(of("a = 1\na {b = 2}"), ["2 a.b=2"]);
    }

    #[test]
    fn included_files_stand_where_they_are_named() {
        assert_eq!(of("a {include \"more.conf\"}"), ["1 a.b=2"]);
        assert!(read("include \"none.conf\"").unwrap_err().contains("f:1: cannot read none.conf"));
        assert!(read("include \"loop.conf\"").unwrap_err().contains("32 levels"));
    }

    #[test]
    fn a_text_that_is_no_hocon_is_refused_with_its_line() {
        for text in ["a = 1\n}", "a {", "a = [1", "a = \"x", "= 1", "root:x", "a = x {", "[a]", "a += 1"] {
            let result = read(text);
            assert!(result.is_err() || text == "root:x", "{text}: {result:?}");
        }
    }

    #[test]
    fn a_substitution_is_marked_as_unknown() {
        let entries = parse("f", "a = ${?HOME}\nb = [x, ${Y}]", &|_| Err(io::ErrorKind::NotFound.into())).unwrap();
        assert!(entries.iter().all(|entry| entry.form == Form::Unknown), "{entries:?}");
    }
}
