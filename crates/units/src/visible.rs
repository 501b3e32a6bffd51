//! Texts of others for terminals and logs: nothing in them moves the cursor, turns later text around or hides.

/// Whether a character is no part of a visible text: a control character, or one that formats, separates or joins others.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    let formats = matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    formats || character.is_control()
}

/// A text with its hidden characters escaped.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_for_terminals() {
        assert_eq!(shown("a\u{1b}[31m\nü"), "a\\u{1b}[31m\\nü");
        assert_eq!(shown("gate\u{202e}1\u{2028}\u{200b}\u{feff}"), "gate\\u{202e}1\\u{2028}\\u{200b}\\u{feff}");
        assert_eq!(shown("Gerät\u{308} 机器 🙂"), "Gerät\u{308} 机器 🙂");
    }
}
