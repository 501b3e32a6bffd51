//! Tells the program which commit it is built from, so that a report of the lab can say it.
//!
//! `TIDEGATE_COMMIT` names the commit where there is no repository, or overrides it. Without it, only builds with
//! optimisations ask `git`: only these are measured, and a build for tests need not be repeated after each commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=TIDEGATE_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("TIDEGATE_COMMIT").is_some() || std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return };
    // Every commit and every change of the branch is written there.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rustc-env=TIDEGATE_COMMIT={commit}");
}

/// The output of `git`; `None` without it, or outside of a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
