//! The list of runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use crate::report::{escape, page as frame, put};

/// Directories that are listed at most.
const MOST: usize = 1_000;

/// A directory of runs.
pub(super) struct Series {
    /// Its name: that of the directory.
    pub(super) name: String,
    pub(super) directory: PathBuf,
    title: String,
    /// Runs that are finished.
    runs: usize,
    is_whole: bool,
    changed: SystemTime,
}

/// Those in a directory, or the directory itself when it is one; the last one first.
pub(super) fn series(directory: &Path) -> Vec<Series> {
    let mut found: Vec<Series> = of(directory).into_iter().collect();
    if found.is_empty()
        && let Ok(entries) = fs::read_dir(directory)
    {
        found.extend(entries.filter_map(|entry| of(&entry.ok()?.path())).take(MOST));
    }
    found.sort_by_key(|series| std::cmp::Reverse(series.changed));
    found
}

fn of(directory: &Path) -> Option<Series> {
    let name = directory.file_name()?.to_str()?.to_owned();
    // Names of files are addresses here; names that would need escaping are left out.
    let is_plain = name.chars().all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character));
    let (begun, report) = (directory.join("series.json"), directory.join("report.html"));
    if !is_plain || !(begun.is_file() || report.is_file()) {
        return None;
    }
    let said: Value = fs::read(&begun).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let title = said["scenario"]["title"].as_str().unwrap_or(&name).to_owned();
    let runs = fs::read_dir(directory.join("runs")).map_or(0, Iterator::count);
    let newest =
        [report.as_path(), begun.as_path()].iter().filter_map(|file| file.metadata().ok()?.modified().ok()).max();
    let is_whole = report.is_file();
    let changed = newest.unwrap_or(SystemTime::UNIX_EPOCH);
    Some(Series { name, directory: directory.to_owned(), title, runs, is_whole, changed })
}

pub(super) fn page(directory: &Path) -> String {
    let found = series(directory);
    let mut body = "<p class=\"kicker\">Tidegate lab</p><h1>Runs</h1>".to_owned();
    if found.is_empty() {
        body += "<p>There are none here yet: <code>tidegate lab run … --out DIR</code> makes some.</p>";
    } else {
        body += "<div class=\"scroll\"><table><thead><tr><th>Scenario</th><th class=\"text\">Directory</th><th>Runs</th><th class=\"text\">Last change</th>\
                 <th class=\"text\">Numbers</th></tr></thead><tbody>";
    }
    for series in &found {
        let (name, title) = (escape(&series.name), escape(&series.title));
        let time = humantime::format_rfc3339_seconds(series.changed).to_string().replace('T', " ").replace('Z', " UTC");
        let (title, numbers) = if series.is_whole {
            (
                format!("<a href=\"/runs/{name}/report.html\">{title}</a>"),
                format!(
                    "<a href=\"/runs/{name}/results.json\">JSON</a> · <a href=\"/runs/{name}/results.csv\">CSV</a>"
                ),
            )
        } else {
            (title, "not finished".to_owned())
        };
        put!(
            body,
            "<tr><td>{title}</td><td class=\"text\">{name}</td><td>{}</td><td class=\"text\">{time}</td><td class=\"text\">{numbers}</td></tr>",
            series.runs
        );
    }
    if !found.is_empty() {
        body += "</tbody></table></div>";
    }
    frame("Runs of the lab", &body)
}
