//! Values of keys: the raw values of sources, and their reading and writing by type.

use std::time::Duration;

use tidegate_units::duration;
pub use tidegate_units::quote::quoted;
use tidegate_units::size::{self, Bytes};

/// A value as a source gives it, before its key has looked at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// Text of a file, in quotes there.
    Text(String),
    /// A whole number of a file.
    Integer(i64),
    /// `true` or `false` of a file.
    Boolean(bool),
    /// A list of texts of a file.
    List(Vec<String>),
    /// A value from the environment or a flag: the key decides whether it is text, a number or a truth value.
    Word(String),
    /// Something that no key takes, by the name of its type.
    Other(&'static str),
}

impl Raw {
    /// Its description, for "must be ..., not THIS".
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Text(text) | Self::Word(text) => format!("{text:?}"),
            Self::Integer(number) => format!("the number {number}"),
            Self::Boolean(truth) => format!("{truth}"),
            Self::List(_) => "a list".to_owned(),
            Self::Other(expected) => (*expected).to_owned(),
        }
    }
}

/// Why a value is refused. The message continues a sentence that begins with the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// "must be ..., not ...".
    pub message: String,
    /// The text to write instead, when it is known.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// The same problem with its remedy.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    fn expected(expected: &str, raw: &Raw) -> Self {
        Self::new(format!("must be {expected}, not {}", raw.describe()))
    }
}

/// The values that a key takes: their check and their description.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer(Range),
    /// A number of bytes with a unit.
    Size(Range),
    /// A length of time with a unit; the range counts milliseconds.
    Duration(Range),
    /// A length of time in whole seconds; the range counts milliseconds all the same.
    Seconds(Range),
    /// A length of time in whole seconds, or `"unlimited"`.
    Lifetime(Range),
    /// A length of time, or `"auto"`; the range counts milliseconds.
    Lease(Range),
    /// `"disk"`, `"memory"`, or a length of time; the range counts milliseconds.
    Keep(Range),
    /// Text of at most this number of bytes; empty means none.
    Text {
        /// Limit on the length, bytes.
        max_len: usize,
    },
    /// Texts, such as names.
    Texts,
    /// A name of letters, digits, `-`, `_` and `.`; empty where one is chosen by the broker.
    Name {
        /// True if the name may be left out.
        empty: bool,
    },
    /// One of a few words, each with its meaning.
    OneOf(&'static [(&'static str, &'static str)]),
    /// Paths of files, one or a list.
    Paths,
    /// Networks, one or a list.
    Networks,
    /// The address of a listener.
    ListenAddress,
    /// The address of the admin listener, or `"off"`.
    AdminAddress,
}

/// The numbers that a key takes.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The least.
    pub min: u64,
    /// The greatest.
    pub max: u64,
    /// The meaning of 0, where it is allowed beside the range.
    pub zero: Option<&'static str>,
}

impl Range {
    /// All numbers from one to the other.
    pub const fn of(min: u64, max: u64) -> Self {
        Self { min, max, zero: None }
    }

    /// The same numbers and 0, with this meaning.
    #[must_use]
    pub const fn or_zero(self, meaning: &'static str) -> Self {
        Self { zero: Some(meaning), ..self }
    }

    /// "1 to 10, or 0 (no limit)".
    pub fn describe(&self, show: fn(u64) -> String) -> String {
        let range = format!("{} to {}", show(self.min), show(self.max));
        match self.zero {
            Some(meaning) => format!("{range}, or 0 ({meaning})"),
            None => range,
        }
    }

    fn check(&self, number: u64, show: fn(u64) -> String) -> Result<u64, Problem> {
        let inside = (self.min..=self.max).contains(&number);
        if inside || (number == 0 && self.zero.is_some()) {
            return Ok(number);
        }
        Err(Problem::new(format!("must be {}, not {}", self.describe(show), show(number))))
    }
}

impl Kind {
    /// The allowed values, in words for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Boolean => "`true` or `false`".to_owned(),
            Self::Integer(range) => format!("a whole number, {}", range.describe(decimal)),
            Self::Size(range) => format!("a size, {}", range.describe(size::show)),
            Self::Duration(range) => format!("a duration, {}", range.describe(duration::show)),
            Self::Seconds(range) => {
                format!("a duration in whole seconds, {}", range.describe(duration::show))
            }
            Self::Lifetime(range) => {
                let range = range.describe(duration::show);
                format!("a duration in whole seconds, {range}, or `\"unlimited\"`")
            }
            Self::Lease(range) => format!("a duration, {}, or `\"auto\"`", range.describe(duration::show)),
            Self::Keep(range) => {
                format!("`\"disk\"`, `\"memory\"`, or a duration, {}", range.describe(duration::show))
            }
            Self::Text { max_len } => format!("text of at most {max_len} bytes; empty for none"),
            Self::Texts => "text in quotes, or a list of such".to_owned(),
            Self::Name { empty } => {
                let chosen = if *empty { "; empty for none" } else { "" };
                format!("a name of at most {NAME_LEN} letters, digits, `-`, `_` and `.`{chosen}")
            }
            Self::OneOf(words) => {
                let words: Vec<String> = words.iter().map(|(word, _)| format!("`\"{word}\"`")).collect();
                format!("one of {}", words.join(", "))
            }
            Self::Paths => "a file, or a list of files; relative to where the broker is started".to_owned(),
            Self::Networks => "a network such as `\"10.0.0.0/8\"` or an address, or a list of these".to_owned(),
            Self::ListenAddress => "`\"HOST:PORT\"`, `\"PORT\"` (on loopback), `\"mqtts://HOST:PORT\"`, \
                 `\"ws://HOST:PORT/PATH\"`, `\"wss://HOST:PORT/PATH\"` or `\"unix:/PATH\"`"
                .to_owned(),
            Self::AdminAddress => "`\"ADDRESS:PORT\"` or `\"off\"`".to_owned(),
        }
    }

    fn range(&self) -> Range {
        match self {
            Self::Integer(range)
            | Self::Size(range)
            | Self::Duration(range)
            | Self::Seconds(range)
            | Self::Lifetime(range)
            | Self::Lease(range)
            | Self::Keep(range) => *range,
            _ => Range::of(0, u64::MAX),
        }
    }
}

/// Longest name of a node or listener, bytes.
pub const NAME_LEN: usize = 64;

/// The type of a key.
pub trait Value: Sized {
    /// Reads the raw value of a source.
    ///
    /// # Errors
    /// When it is of another type or out of range.
    fn read(raw: &Raw, kind: &Kind) -> Result<Self, Problem>;

    /// Writes it as TOML, so that reading it gives the same.
    fn show(&self) -> String;
}

impl Value for bool {
    fn read(raw: &Raw, _: &Kind) -> Result<Self, Problem> {
        match raw {
            Raw::Boolean(truth) => Ok(*truth),
            Raw::Word(word) if word == "true" => Ok(true),
            Raw::Word(word) if word == "false" => Ok(false),
            other => Err(Problem::expected("true or false", other)),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

macro_rules! whole_numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            fn read(raw: &Raw, kind: &Kind) -> Result<Self, Problem> {
                let number = kind.range().check(whole(raw, kind)?, decimal)?;
                Self::try_from(number).map_err(|_| Problem::new(format!("must be at most {}, not {number}", Self::MAX)))
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

whole_numbers!(u8, u16, u32, u64);

fn whole(raw: &Raw, kind: &Kind) -> Result<u64, Problem> {
    let number = match raw {
        Raw::Integer(number) => u64::try_from(*number).ok(),
        Raw::Word(word) => word.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| {
        let problem = Problem::expected(&kind.describe(), raw);
        match raw {
            Raw::Text(text) if text.parse::<u64>().is_ok() => problem.hint(format!("write {text} without quotes")),
            _ => problem,
        }
    })
}

fn decimal(number: u64) -> String {
    number.to_string()
}

impl Value for Bytes {
    fn read(raw: &Raw, kind: &Kind) -> Result<Self, Problem> {
        let number = match raw {
            Raw::Text(text) | Raw::Word(text) => size::parse(text),
            Raw::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| {
            Problem::expected("a size", raw)
                .hint("write a number of bytes, or text with a unit: \"64KiB\", \"2MiB\", \"1GiB\"")
        })?;
        kind.range().check(number, size::show).map(Self)
    }

    fn show(&self) -> String {
        match self.0 {
            0 => "0".to_owned(),
            number => quoted(&size::show(number)),
        }
    }
}

impl Value for Duration {
    fn read(raw: &Raw, kind: &Kind) -> Result<Self, Problem> {
        let millis = match raw {
            Raw::Text(text) | Raw::Word(text) => duration::parse(text),
            Raw::Integer(0) => Some(0),
            _ => None,
        };
        let millis = millis.ok_or_else(|| {
            let problem = Problem::expected("a duration", raw);
            match raw {
                Raw::Integer(number) if *number > 0 => {
                    problem.hint(format!("say the unit: \"{number}s\" or \"{number}ms\""))
                }
                _ => problem.hint("write a number and a unit: \"500ms\", \"30s\", \"5m\", \"1h 30m\", \"7d\""),
            }
        })?;
        kind.range().check(millis, duration::show)?;
        if matches!(kind, Kind::Seconds(_) | Kind::Lifetime(_)) && millis % 1000 != 0 {
            return Err(Problem::new(format!("must be whole seconds, not {}", duration::show(millis))));
        }
        Ok(Self::from_millis(millis))
    }

    fn show(&self) -> String {
        quoted(&duration::show(u64::try_from(self.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// A lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Without end.
    Unlimited,
    /// For this long.
    For(Duration),
}

impl Value for Lifetime {
    fn read(raw: &Raw, kind: &Kind) -> Result<Self, Problem> {
        match raw {
            Raw::Text(text) | Raw::Word(text) if text == "unlimited" => Ok(Self::Unlimited),
            raw => Duration::read(raw, kind).map(Self::For),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Unlimited => quoted("unlimited"),
            Self::For(length) => length.show(),
        }
    }
}

/// How long a peer on a bus may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// The length that suits the bus.
    Auto,
    /// This long.
    For(Duration),
}

impl Value for Lease {
    fn read(raw: &Raw, kind: &Kind) -> Result<Self, Problem> {
        match raw {
            Raw::Text(text) | Raw::Word(text) if text == "auto" => Ok(Self::Auto),
            raw => Duration::read(raw, kind).map(Self::For),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => quoted("auto"),
            Self::For(length) => length.show(),
        }
    }
}

impl Value for String {
    fn read(raw: &Raw, kind: &Kind) -> Result<Self, Problem> {
        let (Raw::Text(text) | Raw::Word(text)) = raw else {
            return Err(Problem::expected("text in quotes", raw));
        };
        match *kind {
            Kind::Text { max_len } if text.len() > max_len => {
                Err(Problem::new(format!("must be at most {max_len} bytes, not {}", text.len())))
            }
            Kind::Text { .. } if text.contains('\0') => Err(Problem::new("must not contain the character U+0000")),
            Kind::Name { empty } if !is_name(text, empty) => {
                Err(Problem::expected(&format!("1 to {NAME_LEN} letters, digits, `-`, `_` or `.`"), raw))
            }
            _ => Ok(text.clone()),
        }
    }

    fn show(&self) -> String {
        quoted(self)
    }
}

impl Value for Option<String> {
    fn read(raw: &Raw, kind: &Kind) -> Result<Self, Problem> {
        String::read(raw, kind).map(|text| Some(text).filter(|text| !text.is_empty()))
    }

    fn show(&self) -> String {
        quoted(self.as_deref().unwrap_or_default())
    }
}

fn is_name(text: &str, empty: bool) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (empty || !text.is_empty()) && text.len() <= NAME_LEN && text.bytes().all(allowed)
}

/// A type whose values are words.
pub trait Words: Sized + Copy + PartialEq + 'static {
    /// Each word with its meaning, in the order of [`Words::VALUES`].
    const WORDS: &'static [(&'static str, &'static str)];
    /// The values.
    const VALUES: &'static [Self];

    /// The word of a value.
    fn word(self) -> &'static str {
        let place = Self::VALUES.iter().position(|value| *value == self);
        place.and_then(|place| Self::WORDS.get(place)).map_or("", |(word, _)| word)
    }
}

/// Reads a word of a type.
///
/// # Errors
/// The problem of a value that is not one of the words.
pub fn read_word<T: Words>(raw: &Raw) -> Result<T, Problem> {
    let (Raw::Text(text) | Raw::Word(text)) = raw else {
        return Err(Problem::expected(&one_of(T::WORDS), raw));
    };
    let place = T::WORDS.iter().position(|(word, _)| word == text);
    place.and_then(|place| T::VALUES.get(place)).copied().ok_or_else(|| {
        let problem = Problem::expected(&one_of(T::WORDS), raw);
        let words = T::WORDS.iter().map(|&(word, _)| word);
        match tidegate_units::suggestion::nearest(text, words) {
            Some(word) => problem.hint(format!("did you mean \"{word}\"?")),
            None => problem,
        }
    })
}

/// Writes a word of a type.
pub fn show_word<T: Words>(value: T) -> String {
    quoted(value.word())
}

fn one_of(words: &[(&str, &str)]) -> String {
    let words: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.join(""),
    }
}

/// Declares a type's words, in one place for reading, writing and the reference page.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $type:ident { $($value:ident => $word:literal, $meaning:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $type {
            $(#[doc = $meaning] $value,)*
        }

        words! { $type { $($type::$value => $word, $meaning;)* } }
    };
    ($type:ty { $($value:path => $word:literal, $meaning:literal;)* }) => {
        impl $crate::value::Words for $type {
            const WORDS: &'static [(&'static str, &'static str)] = &[$(($word, $meaning)),*];
            const VALUES: &'static [Self] = &[$($value),*];
        }

        impl $crate::value::Value for $type {
            fn read(
                raw: &$crate::value::Raw,
                _: &$crate::value::Kind,
            ) -> Result<Self, $crate::value::Problem> {
                $crate::value::read_word(raw)
            }

            fn show(&self) -> String {
                $crate::value::show_word(*self)
            }
        }
    };
}
pub(crate) use words;
