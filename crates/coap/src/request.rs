//! Requests: their options, checked.

use crate::answer::Answer;
use crate::block::Block;
use crate::fields::Parameters;
use crate::message::{Code, Message, number, option};

/// The resource of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A topic, or a filter.
    Topic(String),
    /// The links to all resources.
    Links,
    /// Nothing that there is.
    Nothing,
}

/// The options of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<String>,
    pub(crate) observe: Option<u32>,
    pub(crate) format: Option<u16>,
    pub(crate) accept: Option<u16>,
    pub(crate) etags: Vec<Vec<u8>>,
    pub(crate) block1: Option<Block>,
    pub(crate) block2: Option<Block>,
    pub(crate) size1: Option<u32>,
    pub(crate) echo: Option<Vec<u8>>,
    pub(crate) tag: Option<Vec<u8>>,
}

/// A request that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) target: Target,
    pub(crate) parameters: Parameters,
    pub(crate) options: Options,
}

/// Longest values of options with a text, bytes.
const MAX_TEXT: usize = 255;

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// The answer with the mistake.
    pub(crate) fn read(message: &Message) -> Result<Self, Answer> {
        let options = Options::read(message)?;
        let (target, query) = match options.path.split_first() {
            Some((first, rest)) if first == "topics" && !rest.is_empty() => {
                (Target::Topic(rest.join("/")), &options.query[..])
            }
            // Their query chooses among them.
            Some((first, rest)) if first == ".well-known" && rest == ["core"] => (Target::Links, &[][..]),
            _ => (Target::Nothing, &[][..]),
        };
        let parameters = Parameters::read(query).map_err(|why| Answer::refusal(Code::BAD_REQUEST, why.to_string()))?;
        Ok(Self { target, parameters, options })
    }
}

impl Options {
    fn read(message: &Message) -> Result<Self, Answer> {
        let mut options = Self::default();
        let mut last = None;
        for (number, value) in &message.options {
            let again = last == Some(*number);
            last = Some(*number);
            if options.take(*number, value, again)?.is_some() {
                continue;
            }
            // Critical options have odd numbers [RFC 7252, 5.4.6].
            if number % 2 == 1 {
                let why = format!("option {number} is not known, has a wrong value, or is repeated");
                return Err(Answer::refusal(Code::BAD_OPTION, why));
            }
        }
        Ok(options)
    }

    /// Takes an option. `None` for one that counts as not known: also one with a value that it cannot have
    /// [RFC 7252, 5.4.3], or one that is not repeatable and occurs `again` [RFC 7252, 5.4.5].
    fn take(&mut self, of: u16, value: &[u8], again: bool) -> Result<Option<()>, Answer> {
        let short = |longest: usize| if again || value.len() > longest { None } else { number(value) };
        let text = || std::str::from_utf8(value).ok().filter(|_| value.len() <= MAX_TEXT).map(str::to_owned);
        let small = || short(2).map(|number| number as u16);
        let bytes = |lengths: std::ops::RangeInclusive<usize>| lengths.contains(&value.len()).then(|| value.to_vec());
        let taken = match of {
            option::URI_HOST => text().filter(|_| !again && !value.is_empty()).map(drop),
            option::URI_PORT => small().map(drop),
            option::URI_PATH => text().map(|text| self.path.push(text)),
            option::URI_QUERY => text().map(|text| self.query.push(text)),
            option::ETAG => bytes(1..=8).map(|tag| self.etags.push(tag)),
            option::OBSERVE => short(3).map(|value| self.observe = Some(value)),
            option::CONTENT_FORMAT => small().map(|value| self.format = Some(value)),
            option::ACCEPT => small().map(|value| self.accept = Some(value)),
            option::SIZE1 => short(4).map(|value| self.size1 = Some(value)),
            option::BLOCK1 => Block::read(value).filter(|_| !again).map(|block| self.block1 = Some(block)),
            option::BLOCK2 => Block::read(value).filter(|_| !again).map(|block| self.block2 = Some(block)),
            option::ECHO => bytes(1..=40).filter(|_| !again).map(|echo| self.echo = Some(echo)),
            option::REQUEST_TAG => bytes(0..=8).map(|tag| self.tag = Some(tag)),
            option::PROXY_URI | option::PROXY_SCHEME => {
                return Err(Answer::refusal(Code::NO_PROXY, "other servers are not asked"));
            }
            _ => None,
        };
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Kind, Token};

    fn request(options: &[(u16, &[u8])]) -> Result<Request, Answer> {
        let options = options.iter().map(|(number, value)| (*number, value.to_vec())).collect();
        let (kind, code, token) = (Kind::Confirmable, Code::GET, Token::default());
        Request::read(&Message { kind, code, id: 1, token, options, payload: Vec::new() })
    }

    fn code(options: &[(u16, &[u8])]) -> String {
        request(options).map_or_else(|answer| answer.code.to_string(), |_| "fine".to_owned())
    }

    #[test]
    fn the_path_leads_to_topics_and_links() {
        let target = |path: &[&str]| {
            let options: Vec<(u16, &[u8])> = path.iter().map(|it| (option::URI_PATH, it.as_bytes())).collect();
            request(&options).unwrap().target
        };
        assert_eq!(target(&["topics", "a", "b"]), Target::Topic("a/b".to_owned()));
        assert_eq!(target(&["topics", "", "b", ""]), Target::Topic("/b/".to_owned()));
        assert_eq!(target(&[".well-known", "core"]), Target::Links);
        for nothing in [&[][..], &["topics"], &["a"], &[".well-known"]] {
            assert_eq!(target(nothing), Target::Nothing);
        }
    }

    #[test]
    fn unknown_critical_options_are_refused() {
        assert_eq!(code(&[(9, b"x")]), "4.02");
        assert_eq!(code(&[(10, b"x"), (2_050, b"")]), "fine");
        assert_eq!(code(&[(option::URI_PORT, &[1, 2, 3])]), "4.02", "too long");
        assert_eq!(code(&[(option::OBSERVE, &[1, 2, 3, 4])]), "fine", "too long, and elective");
        assert_eq!(code(&[(option::ACCEPT, &[50]), (option::ACCEPT, &[60])]), "4.02");
        assert_eq!(code(&[(option::BLOCK2, &[7])]), "4.02");
        assert_eq!(code(&[(option::URI_PATH, b"\xFF")]), "4.02");
        assert_eq!(code(&[(option::PROXY_URI, b"coap://h")]), "5.05");
        let path: [(u16, &[u8]); 2] = [(option::URI_PATH, b"topics"), (option::URI_PATH, b"a")];
        assert_eq!(code(&[path[0], path[1], (option::URI_QUERY, b"qso=1")]), "4.00");
    }
}
