//! `tidegate store check`.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use tidegate_store::Disk;
use tidegate_store::inspect::{CheckReport, check};

use tidegate_terminal::{Exit, complain, print_and_exit};

#[expect(clippy::needless_pass_by_value, reason = "each of these commands takes the disk that was opened for it")]
pub(crate) fn run(disk: Arc<dyn Disk>, directory: &Path) -> Exit {
    let found = match check(&disk) {
        Ok(found) => found,
        Err(error) => {
            crate::report_of(directory, &error);
            return Exit::Failure;
        }
    };
    let problems = found.problems();
    let directory = directory.display().to_string();
    if problems > 0 {
        complain(format_args!(
            "{problems} problem{}; `tidegate store export --salvage {directory}` saves what can be read\n",
            if problems == 1 { "" } else { "s" }
        ));
    }
    let text = tidegate_store::with_directory(&text(&found), &directory);
    print_and_exit(&text, if problems == 0 { Exit::Ok } else { Exit::Failure })
}

fn text(found: &CheckReport) -> String {
    let mut text = String::new();
    for file in &found.files {
        let state = if file.problems.is_empty() { "ok" } else { "damaged" };
        let _ = writeln!(text, "{} {state}, {} bytes, {} entries", file.name, file.bytes, file.entries);
        for line in file.problems.iter().chain(&file.note) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}
