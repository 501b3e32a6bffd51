//! A part of a platform: a process within its limits, and its use of the machine.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::PlatformError;
use crate::limits::Limits;
use crate::peer::{MARK, within};
use crate::sample::{Cgroups, Limited, cpu_of, peak_of};

/// Number of lines of an output in an error.
const TAIL_LINES: usize = 15;
/// Time for the answer of a part about its messages.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// In the line that a program of Tidegate writes when it serves.
const READY: &str = " ready: ";

/// A part before its start.
#[derive(Clone, Debug)]
pub(super) struct PartSettings {
    /// Its name in results.
    pub(super) name: String,
    /// The name of its cgroup.
    pub(super) cgroup: String,
    pub(super) limits: Limits,
    /// The directory of its output.
    pub(super) directory: PathBuf,
    /// The host it listens on.
    pub(super) host: String,
    /// The pipeline that it runs, and the port of its admin API.
    pub(super) pipeline: Option<(&'static str, u16)>,
}

/// A running part. Dropped, it ends.
#[derive(Debug)]
pub(super) struct PartProcess {
    settings: PartSettings,
    child: Child,
    limited: Option<Limited>,
}

/// Counters of a part at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Watermark {
    /// CPU time, seconds.
    cpu: f64,
    throttled: u64,
    /// Messages in and out, where the part says it.
    messages: Option<(u64, u64)>,
}

/// The use of the machine by a part of a platform under load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartUse {
    /// Its name, such as `gateway-1`.
    pub name: String,
    /// Its limits.
    pub limits: Limits,
    /// CPU time in a second, in cores.
    pub cores: f64,
    /// The most resident memory, bytes.
    pub memory_peak: u64,
    /// How often it had to wait because its CPU time was used up.
    pub throttled: u64,
    /// Messages that came in, where the part says it.
    #[serde(default)]
    pub messages_in: Option<u64>,
    /// Messages that it has passed on.
    #[serde(default)]
    pub messages_out: Option<u64>,
}

impl PartProcess {
    pub(super) fn start(
        settings: PartSettings,
        program: &Path,
        args: &[String],
        cgroups: &Cgroups,
    ) -> Result<Self, PlatformError> {
        let path = output(&settings);
        let failed = |attempt| {
            let path = path.clone();
            move |source| PlatformError::Io { attempt, path, source }
        };
        let limited = settings.limits.takes_cgroup().then(|| cgroups.limit(&settings.cgroup, &settings.limits));
        let limited =
            limited.transpose().map_err(|source| PlatformError::Limits { part: settings.name.clone(), source })?;
        let log = File::options().create(true).append(true).open(&path).map_err(failed("open"))?;
        let joins = limited.as_ref().map(Limited::joins).unwrap_or_default();
        let mut command = within(&joins, settings.limits.descriptors);
        command.arg(program).args(args).current_dir(&settings.directory).stdin(Stdio::null()).process_group(0);
        // The watchdog ends it when this program is killed.
        command.env(MARK, &settings.directory);
        command.stdout(log.try_clone().map_err(failed("open"))?).stderr(log);
        let child = command.spawn().map_err(failed("start the part that writes to"))?;
        Ok(Self { settings, child, limited })
    }

    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }

    /// Whether it serves.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn is_ready(&mut self) -> Result<bool, PlatformError> {
        if let Some(error) = self.ended() {
            return Err(error);
        }
        Ok(fs::read_to_string(output(&self.settings)).unwrap_or_default().contains(READY))
    }

    pub(super) fn ended(&mut self) -> Option<PlatformError> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(self.not_ready(format!("ended with {status}")))
    }

    pub(super) fn not_ready(&self, how: String) -> PlatformError {
        let text = fs::read_to_string(output(&self.settings)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        PlatformError::NotReady { part: self.settings.name.clone(), how, tail }
    }

    pub(super) fn watermark(&self) -> Watermark {
        Watermark {
            cpu: cpu_of(self.child.id()).unwrap_or_default(),
            throttled: self.limited.as_ref().map(|limited| limited.pressure().0).unwrap_or_default(),
            messages: self.messages(),
        }
    }

    pub(super) fn used(&self, since: Watermark, seconds: f64) -> PartUse {
        let now = self.watermark();
        let messages = now.messages.zip(since.messages);
        PartUse {
            name: self.settings.name.clone(),
            limits: self.settings.limits,
            cores: if seconds > 0.0 { (now.cpu - since.cpu) / seconds } else { 0.0 },
            memory_peak: peak_of(self.child.id()).unwrap_or_default(),
            throttled: now.throttled.saturating_sub(since.throttled),
            messages_in: messages.map(|(now, since)| now.0.saturating_sub(since.0)),
            messages_out: messages.map(|(now, since)| now.1.saturating_sub(since.1)),
        }
    }

    /// Messages in and out of its pipeline.
    fn messages(&self) -> Option<(u64, u64)> {
        let (pipeline, port) = self.settings.pipeline?;
        let mut stream = TcpStream::connect((self.settings.host.as_str(), port)).ok()?;
        stream.set_read_timeout(Some(ANSWER_WITHIN)).ok()?;
        stream.write_all(b"GET /api/v1/hub HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        in_and_out(&answer, pipeline)
    }
}

/// Messages in and out, from an answer of the admin API.
fn in_and_out(answer: &str, pipeline: &str) -> Option<(u64, u64)> {
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let body: Value = serde_json::from_str(body).ok()?;
    let status = body.get(pipeline)?;
    Some((status.get("in")?.as_u64()?, status.get("out")?.as_u64()?))
}

/// The file of the output of a part.
fn output(settings: &PartSettings) -> PathBuf {
    settings.directory.join(format!("{}.log", settings.name))
}

impl Drop for PartProcess {
    fn drop(&mut self) {
        // It has no children, and nothing of it is needed after the run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_from_the_answer_about_pipelines() {
        let answer = "HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n{\"hub\":{\"in\":7,\"out\":5,\"state\":\"running\"}}";
        assert_eq!(in_and_out(answer, "hub"), Some((7, 5)));
        assert_eq!(in_and_out(answer, "gateway"), None);
        assert_eq!(in_and_out("HTTP/1.0 503\r\n\r\n", "hub"), None);
    }

    #[test]
    fn a_part_that_ends_is_reported_with_its_output() {
        let directory = std::env::temp_dir().join(format!("tidegate-lab-part-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let settings = PartSettings {
            name: "p".to_owned(),
            cgroup: "c".to_owned(),
            limits: Limits::default(),
            directory: directory.clone(),
            host: "127.0.0.1".to_owned(),
            pipeline: None,
        };
        let args = ["-c".to_owned(), "echo no license; exit 3".to_owned()];
        let cgroups = Cgroups::Unavailable(String::new());
        let mut part = PartProcess::start(settings, Path::new("/bin/sh"), &args, &cgroups).unwrap();
        part.child.wait().unwrap();
        let error = part.is_ready().unwrap_err().to_string();
        assert!(error.contains("p ended with") && error.contains("no license"), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }
}
