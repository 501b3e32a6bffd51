//! Terms of Erlang, as EMQX and older NanoMQ write rules of access: tuples, lists, atoms, texts and numbers.

/// Deepest nesting.
const MAX_DEPTH: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    Tuple(Vec<Self>),
    List(Vec<Self>),
    /// An atom or a number.
    Atom(String),
    Text(String),
}

impl Term {
    pub(crate) fn atom(&self) -> Option<&str> {
        match self {
            Self::Atom(atom) => Some(atom),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Why a text is no term.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TermError {
    #[error("a rule ends with a dot")]
    NoDot,
    #[error("{0:?} is not expected here")]
    Character(char),
    #[error("a rule has no end")]
    NoEnd,
    #[error("a binary is written <<\"text\">>")]
    Binary,
    #[error("more than {MAX_DEPTH} levels")]
    Depth,
    #[error("elements are separated by commas")]
    NoComma,
    #[error("a text has no end")]
    OpenText,
}

/// A term that ends with a dot, with its line and its text, or its fault.
pub(crate) struct Statement {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) term: Result<Term, TermError>,
}

/// Reads the terms of a file. After a fault the rest of the file is one faulty statement.
pub(crate) fn parse(text: &str) -> Vec<Statement> {
    let mut parser = TermReader { chars: text.chars().collect(), at: 0, depth: 0 };
    let mut statements = Vec::new();
    loop {
        parser.skip();
        if parser.peek().is_none() {
            return statements;
        }
        let start = parser.at;
        let line = 1 + parser.chars[..start].iter().filter(|c| **c == '\n').count();
        let term = parser.term().and_then(|term| {
            parser.skip();
            if parser.take('.') { Ok(term) } else { Err(TermError::NoDot) }
        });
        let failed = term.is_err();
        let text: String = parser.chars[start..parser.at].iter().collect();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        statements.push(Statement { line, text, term });
        if failed {
            return statements;
        }
    }
}

struct TermReader {
    chars: Vec<char>,
    at: usize,
    depth: usize,
}

impl TermReader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, c: char) -> bool {
        let is = self.peek() == Some(c);
        self.at += usize::from(is);
        is
    }

    fn skip(&mut self) {
        loop {
            match self.peek() {
                Some(c) if c.is_whitespace() => self.at += 1,
                Some('%') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn term(&mut self) -> Result<Term, TermError> {
        self.skip();
        match self.peek() {
            Some('{') => Ok(Term::Tuple(self.elements('}')?)),
            Some('[') => Ok(Term::List(self.elements(']')?)),
            Some('"') => self.quoted('"').map(Term::Text),
            Some('\'') => self.quoted('\'').map(Term::Atom),
            Some('<') => self.binary(),
            Some(c) if c.is_alphanumeric() || c == '_' => {
                let start = self.at;
                while self.peek().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '@') {
                    self.at += 1;
                }
                Ok(Term::Atom(self.chars[start..self.at].iter().collect()))
            }
            Some(c) => Err(TermError::Character(c)),
            None => Err(TermError::NoEnd),
        }
    }

    /// `<<"text">>` or `<<"text"/utf8>>`.
    fn binary(&mut self) -> Result<Term, TermError> {
        if !(self.take('<') && self.take('<') && self.peek() == Some('"')) {
            return Err(TermError::Binary);
        }
        let text = self.quoted('"')?;
        while self.peek().is_some_and(|c| c.is_alphanumeric() || c == '/') {
            self.at += 1;
        }
        if self.take('>') && self.take('>') { Ok(Term::Text(text)) } else { Err(TermError::Binary) }
    }

    fn elements(&mut self, end: char) -> Result<Vec<Term>, TermError> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TermError::Depth);
        }
        let mut terms = Vec::new();
        loop {
            self.skip();
            if self.take(end) {
                break;
            }
            terms.push(self.term()?);
            self.skip();
            if !self.take(',') && self.peek() != Some(end) {
                return Err(TermError::NoComma);
            }
        }
        self.depth -= 1;
        Ok(terms)
    }

    fn quoted(&mut self, end: char) -> Result<String, TermError> {
        self.at += 1;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '\\' => {
                    text.extend(self.peek());
                    self.at += 1;
                }
                c if c == end => return Ok(text),
                c => text.push(c),
            }
        }
        Err(TermError::OpenText)
    }
}
