//! Installing a peer from its registry.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use tidegate_proc::program::find;

use super::placeholder::fill;
use super::spawn::PeerPaths;
use super::{PeerError, Template};

/// Whether all that it needs is there.
pub fn is_installed(template: &Template, place: &PeerPaths) -> bool {
    check_installed(template, place).is_ok()
}

/// Looks for its program, and for the files that it needs.
pub(super) fn check_installed(template: &Template, place: &PeerPaths) -> Result<(), PeerError> {
    let values = place.values(template);
    let is_there = |path: &String| Path::new(path).exists() || find(path).is_some();
    for alternatives in [&template.command, &template.installed] {
        let alternatives: Vec<String> = alternatives.iter().map(|path| fill(path, &values)).collect();
        if !alternatives.is_empty() && !alternatives.iter().any(is_there) {
            return Err(template.missing(alternatives));
        }
    }
    Ok(())
}

/// Installs it, unless it is there already; `say` receives each step. Its output goes to this program's standard error.
///
/// # Errors
/// When the lab does not know how, a tool is missing, or a step fails.
pub fn install(template: &Template, place: &PeerPaths, mut say: impl FnMut(&str)) -> Result<(), PeerError> {
    if is_installed(template, place) {
        say(&format!("{} is installed", template.name));
        return Ok(());
    }
    let Some(install) = template.install.as_ref().filter(|install| !install.steps.is_empty()) else {
        let hint = template.install.as_ref().map_or("it has no steps", |install| &install.hint).to_owned();
        return Err(PeerError::NotInstallable { peer: template.name.clone(), hint });
    };
    if let Some(missing) = install.needs.iter().find(|program| find(program).is_none()) {
        let hint = format!("`{missing}` is not in PATH; {}", install.hint);
        return Err(PeerError::NotInstallable { peer: template.name.clone(), hint });
    }
    let directory = place.installed(template);
    fs::create_dir_all(&directory).map_err(PeerError::io("make", &directory))?;
    let values = place.values(template);
    for (name, text) in &install.files {
        let path = directory.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(PeerError::io("make", parent))?;
        }
        fs::write(&path, fill(text, &values)).map_err(PeerError::io("write", &path))?;
    }
    for step in &install.steps {
        let words: Vec<String> = step.iter().map(|word| fill(word, &values)).collect();
        say(&words.join(" "));
        run(template, &words, &install.environment, &values, &directory)?;
    }
    check_installed(template, place)
}

fn run(
    template: &Template,
    words: &[String],
    environment: &BTreeMap<String, String>,
    values: &BTreeMap<String, String>,
    directory: &Path,
) -> Result<(), PeerError> {
    let failed = |message: String| PeerError::Step { peer: template.name.clone(), command: words.join(" "), message };
    let Some((program, args)) = words.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(args).current_dir(directory);
    for (name, value) in environment {
        command.env(name, fill(value, values));
    }
    // Its standard output is no data of ours.
    command.stdout(std::io::stderr());
    let status = command.status().map_err(|error| failed(format!("cannot be run: {error}")))?;
    if status.success() { Ok(()) } else { Err(failed(format!("ended with {status}"))) }
}

#[cfg(test)]
mod tests {
    use super::super::Catalogue;
    use super::*;

    /// Those on NATS were said to be installed, and then did not get ready.
    #[test]
    fn a_missing_program_is_named_with_the_remedy() {
        let nowhere = Path::new("/nowhere").to_owned();
        let executable = std::env::current_exe().unwrap();
        let broker = executable.clone();
        let place = PeerPaths { peers: nowhere.clone(), scratch: nowhere, executable, broker };
        let catalogue = Catalogue::shipped().unwrap();
        let said = |name: &str| check_installed(catalogue.get(name).unwrap(), &place).unwrap_err().to_string();
        assert_eq!(
            said("gateways-kafka"),
            "gateways-kafka is not installed: /nowhere/kafka/lib is not there; the bus is the peer `kafka`: install \
             that one; Tidegate itself is built with `--features kafka`"
        );
        assert_eq!(
            said("mochi"),
            "mochi is not installed: /nowhere/mochi/mochi is not there; `tidegate lab peers install mochi` \
             installs it where it can"
        );
        assert_eq!(catalogue.get("gateways-nats").unwrap().installed, ["{peers}/nats/bin/nats-server", "nats-server"]);
    }
}
