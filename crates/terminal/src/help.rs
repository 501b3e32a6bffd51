//! Help whose text is as wide as the terminal.

/// Joins the source lines of the text after the flags, for a command and its subcommands, so that the terminal wraps it.
#[must_use]
pub fn flowing(mut command: clap::Command) -> clap::Command {
    if let Some(text) = command.get_after_help().map(|text| flow(&text.to_string())) {
        command = command.after_help(text);
    }
    command.mut_subcommands(flowing)
}

/// Joins lines that go on in the middle of a sentence. Examples and tables are indented and stay as they are.
fn flow(text: &str) -> String {
    let mut flowed = String::with_capacity(text.len());
    let (mut continues, mut is_first) = (false, true);
    for line in text.lines() {
        if !is_first {
            flowed.push(if continues && line.starts_with(|first: char| !first.is_whitespace()) { ' ' } else { '\n' });
        }
        flowed.push_str(line);
        is_first = false;
        continues = !line.is_empty() && !line.starts_with(' ') && !line.ends_with('.');
    }
    flowed
}

#[cfg(test)]
mod tests {
    use super::flow;

    #[test]
    fn prose_flows_and_examples_stay() {
        let text = "Examples:\n  one\n  two\n\nA sentence that\ncontinues. It ends\nhere.\nAnother: it\nends.";
        let flowed = "Examples:\n  one\n  two\n\nA sentence that continues. It ends here.\nAnother: it ends.";
        assert_eq!(flow(text), flowed);
    }
}
