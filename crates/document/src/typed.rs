//! Mistakes in a file that is read as a type.

use serde::de::DeserializeOwned;
use tidegate_units::suggestion::nearest;

use super::{FileText, Findings};

impl FileText {
    /// Reads the whole file as a type that derives its keys.
    ///
    /// # Errors
    /// The first finding, with the near name of an unknown key.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, Findings> {
        toml::from_str(&self.text).map_err(|error| finding(self, &error))
    }
}

/// The mistake of a parser as a finding.
fn finding(file: &FileText, error: &toml::de::Error) -> Findings {
    let message = error.message().trim();
    let offset = error.span().unwrap_or_default().start;
    let (message, hint) = match parts(message) {
        Some((wrong, known)) => {
            let near = nearest(wrong, known.split('`').skip(1).step_by(2));
            let hint = near.map_or_else(|| format!("known here: {known}"), |near| format!("did you mean `{near}`?"));
            (message.split(", expected ").next().unwrap_or(message), hint)
        }
        None => (message, "correct the value there".to_owned()),
    };
    let mut found = Findings::about(file);
    found.note(offset, message, hint);
    found
}

/// The message of a parser, with the near name of an unknown key or word.
pub fn with_suggestion(message: &str) -> String {
    let near = parts(message).and_then(|(wrong, known)| nearest(wrong, known.split('`').skip(1).step_by(2)));
    near.map_or_else(|| message.to_owned(), |word| format!("{message}: did you mean `{word}`?"))
}

/// The unknown word of a message, and the text that lists the known ones.
fn parts(message: &str) -> Option<(&str, &str)> {
    let at = message.find("unknown field").or_else(|| message.find("unknown variant"))?;
    let (wrong, known) = message.get(at..)?.split_once(", expected ")?;
    Some((wrong.split('`').nth(1)?, known.strip_prefix("one of ").unwrap_or(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Plan {
        filters: u32,
        qos: Option<u8>,
    }

    fn fault(text: &str) -> String {
        FileText::new("plan.toml", text).deserialize::<Plan>().unwrap_err().to_string()
    }

    #[test]
    fn a_right_file_is_read() {
        let plan: Plan = FileText::new("plan.toml", "filters = 3\n").deserialize().unwrap();
        assert_eq!((plan.filters, plan.qos), (3, None));
    }

    #[test]
    fn an_unknown_key_has_its_place_and_its_near_name() {
        let expected = "unknown field `filter`\n  --> plan.toml:2:1\n   | filter = 3\nhint: did you mean `filters`?";
        assert_eq!(fault("qos = 1\nfilter = 3\n"), expected);
        assert!(fault("colour = 3\n").ends_with("hint: known here: `filters` or `qos`"), "{}", fault("colour = 3\n"));
    }

    #[test]
    fn a_wrong_value_and_a_wrong_syntax_have_their_place() {
        assert!(fault("filters = \"x\"\n").contains("--> plan.toml:1:11"), "{}", fault("filters = \"x\"\n"));
        assert!(fault("qos = 1\nfilters = \n").contains("--> plan.toml:2:"), "{}", fault("qos = 1\nfilters = \n"));
    }

    #[test]
    fn a_message_without_known_words_stays() {
        assert_eq!(with_suggestion("invalid type"), "invalid type");
        assert_eq!(
            with_suggestion("unknown variant `qo1`, expected `qos1` or `qos2`"),
            "unknown variant `qo1`, expected `qos1` or `qos2`: did you mean `qos1`?"
        );
    }
}
