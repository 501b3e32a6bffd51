//! Lines of files, and the words of their values.

use std::io;

use tidegate_conversion::File;

/// A line with content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) file: usize,
    /// Its number, from 1.
    pub(crate) number: usize,
    /// The byte at which it begins.
    pub(crate) offset: usize,
    /// Its first word.
    pub(crate) key: &'a str,
    /// The rest of the line without spaces at its ends; may be empty.
    pub(crate) value: &'a str,
    /// The rest of the line unchanged.
    pub(crate) rest: &'a str,
}

/// A character that C's `isspace` knows.
fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

impl<'a> Line<'a> {
    /// The words of the value. Mosquitto stops at `#` where it takes words; texts such as paths and names are whole.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.tokens().take_while(|word| !word.starts_with('#'))
    }

    /// The words of the value, also in a comment. Only spaces are between words.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.value.split(' ').filter(|word| !word.is_empty())
    }

    /// The value of a key that takes a text.
    pub(crate) fn text(&self) -> &'a str {
        self.value.trim_matches(is_space)
    }

    /// The first word of the value; empty if the value is.
    pub(crate) fn word(&self) -> &'a str {
        self.words().next().unwrap_or_default()
    }
}

/// The main file and its included files, with the order of their lines.
pub(crate) struct Files {
    /// The main file, then the others.
    pub(crate) files: Vec<File>,
    /// The line of the main file that includes each of the others.
    behind: Vec<usize>,
}

impl Files {
    /// All lines. The lines of an included file follow the line that includes it.
    pub(crate) fn lines(&self) -> Vec<Line<'_>> {
        let mut all = Vec::new();
        let Some((main, others)) = self.files.split_first() else { return all };
        for line in of(&main.text, 0) {
            all.push(line);
            for (index, file) in others.iter().enumerate() {
                if self.behind.get(index) == Some(&line.number) {
                    all.extend(of(&file.text, index + 1));
                }
            }
        }
        all
    }
}

/// Reads the folders that the main file includes; files of a folder include none. Also returns the lines whose folder
/// cannot be read.
pub(crate) fn with_included(
    main: &File,
    folder: &dyn Fn(&str) -> io::Result<Vec<File>>,
) -> (Files, Vec<(usize, String)>) {
    let mut files = Files { files: vec![main.clone()], behind: Vec::new() };
    let mut unread = Vec::new();
    for line in of(&main.text, 0).into_iter().filter(|line| line.key == "include_dir") {
        match folder(line.rest) {
            Ok(included) => {
                for file in included {
                    files.files.push(file);
                    files.behind.push(line.number);
                }
            }
            Err(error) => unread.push((line.number, format!("cannot read {}: {error}", line.rest))),
        }
    }
    (files, unread)
}

/// The lines of one file with content: neither empty nor a comment.
pub(crate) fn of(text: &str, file: usize) -> Vec<Line<'_>> {
    let mut offset = 0;
    let mut lines = Vec::new();
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        // Only spaces are removed before a key: with a tab, a byte order mark or an indented `#` Mosquitto does not
        // know it.
        let start = raw.trim_start_matches(' ');
        let content = start.trim_end_matches(['\r', '\n']);
        if !content.is_empty() && !raw.starts_with(['#', '\r']) {
            let (key, rest) = content.split_once(' ').unwrap_or((content, ""));
            let at = offset + raw.len() - start.len();
            lines.push(Line { file, number: index + 1, offset: at, key, value: rest.trim_matches(' '), rest });
        }
        offset += raw.len();
    }
    lines
}
