//! Text within HTML.

pub(crate) use tidegate_plot::{escape, put};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_text_are_set_apart() {
        assert_eq!(prose("as `a` and `<b>` do"), "as <code>a</code> and <code>&lt;b&gt;</code> do");
        assert_eq!(prose("a ` alone"), "a ` alone");
    }
}
