//! Names with placeholders for numbers: topics, filters and client ids.

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A placeholder has no end.
    #[error("`{text}` has a `{{` without its `}}`")]
    Unclosed {
        /// The text.
        text: String,
    },
    /// A placeholder is unknown.
    #[error("`{{{name}}}` is no placeholder: take {{client}}, {{client%N}}, {{client/N}} or {{topic}}")]
    Unknown {
        /// Its name.
        name: String,
    },
}

/// A text with placeholders: `{client}`, `{topic}`, and `{client%N}` and `{client/N}` for remainder and quotient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Number { of: Source, change: Change },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Client,
    Topic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    Remainder(u32),
    Quotient(u32),
}

impl Template {
    /// Reads a template. `{group}` and `{run}` are left as text; the caller replaces them.
    ///
    /// # Errors
    /// For a placeholder that is unknown or not closed.
    pub fn new(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let unclosed = || TemplateError::Unclosed { text: text.to_owned() };
            let (name, behind) = after.split_once('}').ok_or_else(unclosed)?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let unknown = || TemplateError::Unknown { name: name.to_owned() };
            parts.push(placeholder(name).ok_or_else(unknown)?);
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// The text for a client and one of its topics.
    pub fn expand(&self, client: u32, topic: u32) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(fixed) => text.push_str(fixed),
                Part::Number { of, change } => {
                    let number = match of {
                        Source::Client => client,
                        Source::Topic => topic,
                    };
                    let number = match *change {
                        Change::None => number,
                        Change::Remainder(by) => number % by,
                        Change::Quotient(by) => number / by,
                    };
                    text.push_str(&number.to_string());
                }
            }
        }
        text
    }
}

fn placeholder(name: &str) -> Option<Part> {
    let (source, change) = match name.find(['%', '/']) {
        None => (name, Change::None),
        Some(at) => {
            let by = name[at + 1..].parse().ok().filter(|by| *by > 0)?;
            (&name[..at], if name[at..].starts_with('%') { Change::Remainder(by) } else { Change::Quotient(by) })
        }
    };
    let of = match source {
        "client" => Source::Client,
        "topic" => Source::Topic,
        "group" | "run" if change == Change::None => return Some(Part::Text(format!("{{{name}}}"))),
        _ => return None,
    };
    Some(Part::Number { of, change })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_numbers() {
        let name = |text: &str| Template::new(text).unwrap().expand(123, 4);
        assert_eq!(name("a/b"), "a/b");
        assert_eq!(name("t/{client}/{topic}"), "t/123/4");
        assert_eq!(name("{client%50}-{client/50}"), "23-2");
    }

    #[test]
    fn invalid_placeholders_are_reported() {
        for wrong in ["{clint}", "{client%0}", "{client%x}", "{client", "{group%2}"] {
            assert!(Template::new(wrong).is_err(), "{wrong}");
        }
    }
}
