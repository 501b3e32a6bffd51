//! Lists as keys: `["a", "b"]`, or a single text; from the environment and from flags, `a,b`.

use std::path::PathBuf;

use tidegate_node::proxy_protocol::Network;

use super::value::{Kind, Problem, Raw, Value, quoted};

/// Entries that a list may have.
const MAX_ENTRIES: usize = 256;

/// The texts that a source gives.
///
/// # Errors
/// When it gives something else, or too many.
pub fn read_texts(raw: &Raw) -> Result<Vec<String>, Problem> {
    let texts = match raw {
        Raw::List(texts) => texts.clone(),
        Raw::Text(text) => vec![text.clone()],
        Raw::Word(word) => word.split(',').map(|part| part.trim().to_owned()).collect(),
        _ => return Err(Problem::new("must be text in quotes, or a list of such: [\"...\", \"...\"]")),
    };
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    if texts.len() > MAX_ENTRIES {
        return Err(Problem::new(format!("must have at most {MAX_ENTRIES} entries, not {}", texts.len())));
    }
    Ok(texts)
}

/// Texts as TOML writes them.
pub fn show_texts(texts: impl IntoIterator<Item = String>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| quoted(&text)).collect();
    match texts.as_slice() {
        [only] => only.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}

/// Paths of files, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths(pub Vec<PathBuf>);

impl Value for Paths {
    fn read(raw: &Raw, _: &Kind) -> Result<Self, Problem> {
        let texts = read_texts(raw)?;
        if texts.iter().any(|text| text.contains('\0')) {
            return Err(Problem::new("must not contain the character U+0000"));
        }
        Ok(Self(texts.into_iter().map(PathBuf::from).collect()))
    }

    fn show(&self) -> String {
        show_texts(self.0.iter().map(|path| path.display().to_string()))
    }
}

impl Networks {
    /// The brokers of this machine.
    pub fn local() -> Self {
        Self(["127.0.0.0/8", "::1/128"].iter().filter_map(|text| text.parse().ok()).collect())
    }
}

/// Texts, such as names, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts(pub Vec<String>);

/// Longest text of a list, bytes.
const MAX_TEXT: usize = 1024;

impl Value for Texts {
    fn read(raw: &Raw, _: &Kind) -> Result<Self, Problem> {
        let texts = read_texts(raw)?;
        match texts.iter().find(|text| text.len() > MAX_TEXT || text.contains('\0')) {
            Some(text) if text.len() > MAX_TEXT => {
                Err(Problem::new(format!("must have texts of at most {MAX_TEXT} bytes, not {}", text.len())))
            }
            Some(_) => Err(Problem::new("must not contain the character U+0000")),
            None => Ok(Self(texts)),
        }
    }

    fn show(&self) -> String {
        show_texts(self.0.iter().cloned())
    }
}

/// Networks by address and prefix, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(pub Vec<Network>);

impl Value for Networks {
    fn read(raw: &Raw, _: &Kind) -> Result<Self, Problem> {
        let networks = read_texts(raw)?.iter().map(|text| text.parse()).collect::<Result<_, _>>();
        networks.map(Self).map_err(|error| Problem::new(format!("cannot be read: {error}")))
    }

    fn show(&self) -> String {
        show_texts(self.0.iter().map(ToString::to_string))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_from_any_source_reads_the_same_after_writing() {
        let paths = |texts: &[&str]| Paths(texts.iter().map(PathBuf::from).collect());
        let cases = [
            (Raw::Text("a,b".into()), paths(&["a,b"]), "\"a,b\""),
            (Raw::List(vec!["a".into(), "b".into()]), paths(&["a", "b"]), "[\"a\", \"b\"]"),
            (Raw::Word("a, b".into()), paths(&["a", "b"]), "[\"a\", \"b\"]"),
            (Raw::Text(String::new()), paths(&[]), "[]"),
            (Raw::List(vec![]), paths(&[]), "[]"),
        ];
        for (raw, expected, shown) in cases {
            let read = Paths::read(&raw, &Kind::Paths).unwrap();
            assert_eq!((&read, read.show().as_str()), (&expected, shown));
        }
        let networks = Networks::read(&Raw::Word("10.0.0.0/8,::1".into()), &Kind::Networks).unwrap();
        assert_eq!(networks.show(), "[\"10.0.0.0/8\", \"::1/128\"]");
        let problem = Networks::read(&Raw::Text("10.0.0.1/8".into()), &Kind::Networks).unwrap_err();
        assert!(problem.message.contains("the network is 10.0.0.0/8"), "{problem:?}");
        assert!(Paths::read(&Raw::Integer(1), &Kind::Paths).is_err());
        assert!(Paths::read(&Raw::List(vec!["x".into(); 257]), &Kind::Paths).is_err());
    }
}
