//! Text within HTML and SVG.

/// The text with the special characters of HTML replaced.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

/// A text of people with its `names` set apart.
pub(crate) fn prose(text: &str) -> String {
    let text = escape(text);
    let parts: Vec<&str> = text.split('`').collect();
    // Without a partner, a backtick is a backtick.
    if parts.len().is_multiple_of(2) {
        return text;
    }
    let marked = |(place, part): (usize, &&str)| {
        if place % 2 == 1 { format!("<code>{part}</code>") } else { (*part).to_owned() }
    };
    parts.iter().enumerate().map(marked).collect()
}

/// Appends formatted text; writing to a `String` does not fail.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        use std::fmt::Write as _;
        let _ = write!($out, $($part)*);
    }};
}
pub(crate) use put;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_becomes_markup() {
        assert_eq!(escape("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
    }

    #[test]
    fn names_in_a_text_are_set_apart() {
        assert_eq!(prose("as `a` and `<b>` do"), "as <code>a</code> and <code>&lt;b&gt;</code> do");
        assert_eq!(prose("a ` alone"), "a ` alone");
    }
}
