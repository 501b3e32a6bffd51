//! Files of flags: defaults that the command line overrides.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, Command};

use super::{Tool, UsageError};

/// The flags of `tool` again, with the flags of its options file before them: `-o FILE`, or else the default file if it
/// exists. `given` are the flags of the command line as they were read the first time.
///
/// # Errors
/// When the file cannot be read, or has a flag that does not exist.
pub(crate) fn with_options_file<A: Args>(tool: Tool, given: A, named: Option<&Path>) -> Result<A, UsageError> {
    // The first argument is the command: the flags of the broker cannot stand before it.
    let arguments = std::env::args_os().skip(2);
    let (path, text) = match named {
        Some(path) => (path.to_owned(), std::fs::read_to_string(path)),
        None => match default_path(tool, |name| std::env::var_os(name)) {
            Some(path) => {
                let text = std::fs::read_to_string(&path);
                (path, text)
            }
            None => return Ok(given),
        },
    };
    match text {
        Ok(text) => merge(tool, &path, &text, arguments),
        Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => Ok(given),
        Err(error) => Err(UsageError::new(format!("cannot read the options file '{}': {error}", path.display()))),
    }
}

/// The path of the options file of `tool`, if the environment names a directory.
fn default_path(tool: Tool, environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| environment(name).filter(|value| !value.is_empty());
    let configuration = match set("XDG_CONFIG_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(set("HOME")?).join(".config"),
    };
    Some(configuration.join("tidegate").join(tool.name()))
}

fn merge<A: Args>(
    tool: Tool,
    path: &Path,
    text: &str,
    arguments: impl Iterator<Item = OsString>,
) -> Result<A, UsageError> {
    let wrong = |error: clap::Error| {
        let error = error.to_string();
        let problem = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
        UsageError::new(format!("in the options file '{}': {problem}", path.display()))
    };
    let from_file: Vec<OsString> = text.lines().flat_map(flags_of_line).map(OsString::from).collect();
    // A fault of the file alone names the file; a fault of both together does not.
    let name = OsStr::new("tidegate").to_owned();
    let alone = std::iter::once(name.clone()).chain(from_file.iter().cloned());
    command::<A>(tool).try_get_matches_from(alone).map_err(wrong)?;
    let together = std::iter::once(name).chain(from_file).chain(arguments);
    let matches = command::<A>(tool).try_get_matches_from(together).map_err(wrong)?;
    A::from_arg_matches(&matches).map_err(wrong)
}

fn command<A: Args>(tool: Tool) -> Command {
    A::augment_args(Command::new(tool.name()).no_binary_name(false))
}

/// The flag of a line and its values. A line that starts with `#` is a comment.
fn flags_of_line(line: &str) -> Vec<&str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Vec::new();
    }
    let (flag, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let mut parts = vec![flag];
    let mut rest = rest.trim_start();
    if matches!(flag, "-D" | "--property") {
        // All values but the last are words.
        let is_pair = rest.split_whitespace().nth(1) == Some("user-property");
        for _ in 0..if is_pair { 3 } else { 2 } {
            let (word, tail) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            if !word.is_empty() {
                parts.push(word);
            }
            rest = tail.trim_start();
        }
    }
    if !rest.is_empty() {
        parts.push(rest);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscribe;

    #[test]
    fn the_place_of_the_default_file() {
        let with = |pairs: &'static [(&str, &str)]| {
            let find = move |name: &str| {
                let pair = pairs.iter().find(|(key, _)| *key == name);
                pair.map(|(_, value)| OsString::from(value))
            };
            default_path(Tool::Subscribe, find)
        };
        let home = with(&[("HOME", "h"), ("XDG_CONFIG_HOME", "")]);
        assert_eq!(home, Some(PathBuf::from("h/.config/tidegate/sub")));
        let xdg = with(&[("HOME", "h"), ("XDG_CONFIG_HOME", "x")]);
        assert_eq!(xdg, Some(PathBuf::from("x/tidegate/sub")));
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn lines() {
        assert_eq!(flags_of_line("  "), Vec::<&str>::new());
        assert_eq!(flags_of_line("# -h host"), Vec::<&str>::new());
        assert_eq!(flags_of_line("-v"), ["-v"]);
        assert_eq!(flags_of_line("-F  %t is %p "), ["-F", "%t is %p"]);
        let pair = flags_of_line("-D connect user-property name some value");
        assert_eq!(pair, ["-D", "connect", "user-property", "name", "some value"]);
        let single = flags_of_line("--property will content-type text/plain; charset=utf-8");
        assert_eq!(single, ["--property", "will", "content-type", "text/plain; charset=utf-8"]);
        assert_eq!(flags_of_line("-D connect"), ["-D", "connect"]);
    }

    #[test]
    fn the_command_line_overrides_and_adds() {
        let file = "-h one\n-q 1\n-t from/file\n";
        let arguments = ["-h", "two", "-t", "from/line"].map(OsString::from);
        let args: subscribe::Args = merge(Tool::Subscribe, Path::new("f"), file, arguments.into_iter()).unwrap();
        let plan = args.read().unwrap();
        assert_eq!(plan.connection.address.to_string(), "two:1883");
        assert_eq!(plan.topics(), ["from/file", "from/line"]);
    }

    #[test]
    fn a_fault_in_the_file_names_it() {
        let result = merge::<subscribe::Args>(Tool::Subscribe, Path::new("f"), "--bogus", std::iter::empty());
        let text = result.unwrap_err().to_string();
        assert!(text.contains("in the options file 'f'") && text.contains("--bogus"), "{text}");
    }
}
