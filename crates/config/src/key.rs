//! A key of the configuration. Each is declared once, in [`sections`](super::sections): reading, checking, showing,
//! explaining and the reference page all work from that declaration.

use super::value::{Kind, Problem, Raw};

/// One key of a section.
#[derive(Debug)]
pub struct Key {
    /// Its name in the section.
    pub name: &'static str,
    /// Its effect, in sentences, one paragraph.
    pub doc: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Its default as TOML.
    pub default: fn() -> String,
    /// Whether its value may hold a user name, a password or a token, as an address may: then it is shown without these
    /// everywhere.
    pub credentials: bool,
    /// The flags of `tidegate run` that set it; with `--set` any key can be set.
    pub flags: &'static [&'static str],
}

impl Key {
    /// The documentation as one line of text.
    pub fn doc(&self) -> String {
        let words: Vec<&str> = self.doc.split_whitespace().collect();
        words.join(" ")
    }
}

/// A section with its keys, as the tables declare it.
#[derive(Debug)]
pub struct SectionKeys {
    /// Its name in brackets.
    pub name: &'static str,
    /// Its purpose.
    pub doc: &'static str,
    /// Whether it is written `[[name]]` and may stand several times.
    pub repeated: bool,
    /// Its keys.
    pub keys: &'static [Key],
}

impl SectionKeys {
    /// The key of that name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// How the section is headed in a file.
    pub fn header(&self) -> String {
        if self.repeated { format!("[[{}]]", self.name) } else { format!("[{}]", self.name) }
    }
}

/// The values of one section.
pub trait Section {
    /// Sets one key.
    ///
    /// # Errors
    /// When the section has no such key or the value is refused.
    fn set(&mut self, key: &str, raw: &Raw) -> Result<(), Problem>;

    /// One key's value as TOML; empty when there is no such key.
    fn show(&self, key: &str) -> String;
}

/// Declares a section: the structure of its values and the table of its keys.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        $header:literal $([repeated = $repeated:literal])? => $section:ident, $table:ident {
            $(
                $(#[doc = $key_doc:literal])*
                $key:ident: $type:ty = $default:expr, in $kind:expr $(, credentials = $credentials:literal)? $(, flag $flag:literal)*;
            )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $section {
            $($(#[doc = $key_doc])* pub $key: $type,)*
        }

        impl Default for $section {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        /// The keys of the section.
        pub static $table: SectionKeys = SectionKeys {
            name: $header,
            doc: concat!($($doc, "\n"),*),
            repeated: false $(|| $repeated)?,
            keys: &[$(Key {
                name: stringify!($key),
                doc: concat!($($key_doc, "\n"),*),
                kind: $kind,
                default: || { let value: $type = $default; value.show() },
                credentials: false $(|| $credentials)?,
                flags: &[$($flag),*],
            },)*],
        };

        impl Section for $section {
            fn set(&mut self, key: &str, raw: &Raw) -> Result<(), Problem> {
                match key {
                    $(stringify!($key) => self.$key = <$type as Value>::read(raw, &$kind)?,)*
                    _ => return Err(Problem::new("is no key of this section")),
                }
                Ok(())
            }

            fn show(&self, key: &str) -> String {
                match key {
                    $(stringify!($key) => self.$key.show(),)*
                    _ => String::new(),
                }
            }
        }
    };
}
pub(crate) use section;
