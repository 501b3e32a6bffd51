//! `tidegate manual`.

use std::fmt::Write;

use clap::CommandFactory;
use tidegate_terminal::help::flowing;
use tidegate_terminal::{Exit, print_and_exit};

use super::{Cli, ManualSubject};

/// Columns of the help texts, independent of the terminal.
const WIDTH: usize = 100;

/// Prints a reference. The site contains each; the manual pages of packages are made of the help texts.
pub(crate) fn run(subject: Option<ManualSubject>) -> Exit {
    let text = match subject {
        None => page(),
        Some(ManualSubject::Metrics) => tidegate_console::metrics::page(),
        Some(ManualSubject::Reasons) => tidegate_console::api::reasons_page().to_owned(),
    };
    print_and_exit(&text, Exit::Ok)
}

/// The help texts of all commands as Markdown, with a heading for each.
fn page() -> String {
    let mut command = flowing(Cli::command());
    command.build();
    let mut page = String::from("# Command line\n");
    add(&mut page, &mut command);
    page
}

/// Adds the help of a command and of its subcommands.
fn add(page: &mut String, command: &mut clap::Command) {
    let name = command.get_bin_name().unwrap_or("tidegate").to_owned();
    *command = std::mem::take(command).term_width(WIDTH);
    // As `--help` decides: the long form only where some help is longer than its short form.
    let long = command.get_long_about().is_some()
        || command.get_after_long_help().is_some()
        || command.get_arguments().any(|argument| argument.get_long_help().is_some());
    let help = if long { command.render_long_help() } else { command.render_help() }.to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim());
    for below in command.get_subcommands_mut().filter(|command| command.get_name() != "help") {
        add(page, below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(command: &clap::Command) -> usize {
        1 + command.get_subcommands().filter(|command| command.get_name() != "help").map(count).sum::<usize>()
    }

    #[test]
    fn the_manual_has_the_help_of_each_command() {
        let page = page();
        let mut command = Cli::command();
        command.build();
        assert_eq!(page.matches("\n## `tidegate").count(), count(&command));
        for part in ["## `tidegate`\n", "## `tidegate config convert`\n", "--allow-anonymous", "Exit codes: 0"] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn each_reference_has_a_section_and_the_reasons_their_remedies() {
        // The site inserts a reference from its first section on.
        for page in [tidegate_console::metrics::page(), tidegate_console::api::reasons_page().to_owned()] {
            assert!(page.contains("\n## "), "{page}");
        }
        assert!(tidegate_console::api::reasons_page().contains("Correct the credentials."));
    }
}
