//! A line of a file in an error, short enough for a terminal.

use crate::visible::is_hidden;

/// Characters of a line that an error shows.
const WIDTH: usize = 160;
/// The mark of the left-out beginning or end of a line.
const CUT: char = '…';

/// A line of a file, as an error shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// At most 160 characters around the column. Control characters other than tabs are replaced: they would move
    /// the cursor of a terminal.
    pub text: String,
    /// The column within the text, from 1, characters.
    pub column: usize,
}

/// The part of a line around a column, which is counted from 1 in characters.
#[must_use]
pub fn excerpt(line: &str, column: usize) -> Excerpt {
    let visible = |character: char| {
        let is_visible = character == '\t' || !is_hidden(character);
        if is_visible { character } else { char::REPLACEMENT_CHARACTER }
    };
    let length = line.chars().count();
    if length <= WIDTH {
        return Excerpt { text: line.chars().map(visible).collect(), column };
    }
    let begin = column.saturating_sub(1 + WIDTH / 2).min(length - WIDTH);
    let mut text: Vec<char> = line.chars().skip(begin).take(WIDTH).map(visible).collect();
    if let Some(first) = text.first_mut().filter(|_| begin > 0) {
        *first = CUT;
    }
    if let Some(last) = text.last_mut().filter(|_| begin + WIDTH < length) {
        *last = CUT;
    }
    Excerpt { text: text.into_iter().collect(), column: column - begin }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_line_stays_and_has_no_control_characters() {
        let found = excerpt("a\u{1b}[2J\tü\0", 4);
        assert_eq!(found, Excerpt { text: "a\u{fffd}[2J\tü\u{fffd}".to_owned(), column: 4 });
    }

    #[test]
    fn a_long_line_is_cut_around_the_column() {
        let line: String = ('a'..='z').cycle().take(100_000).collect();
        for column in [1, 2, 80, 81, 82, 160, 161, 50_000, 99_920, 99_921, 100_000, 100_001] {
            let Excerpt { text, column: at } = excerpt(&line, column);
            assert_eq!(text.chars().count(), WIDTH, "{column}");
            let shown = text.chars().nth(at - 1);
            let wanted = line.chars().nth(column - 1);
            assert!(shown == wanted || column > 100_000, "{column}: {shown:?}, {wanted:?}");
            assert_eq!((text.starts_with(CUT), text.ends_with(CUT)), (column > 81, column < 99_921), "{column}");
        }
    }
}
