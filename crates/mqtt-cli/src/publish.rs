//! `tidegate pub`: publishes messages.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tidegate_client::{Event, Publish, Published, QoS, TopicNameBuf, Undelivered, UndeliveredCause};

use crate::flags::connection::{ConnectionFlags, InFlightFlag, Plan};
use crate::flags::message_source::{MessageSource, MessageSourceFlags, none, several};
use crate::flags::options_file::with_options_file;
use crate::flags::{Tool, UsageError, heading, parse_qos, parse_seconds};
use crate::outcome::{CommandError, Outcome, finish};
use crate::quoted::Quoted;
use crate::session::{News, Persistence, Session};
use crate::stdin_lines::{Line, StdinLines};

/// How often a lost connection is tried again, without a message being settled, before the messages are given up.
const ATTEMPTS: u32 = 5;

const ABOUT: &str = "Publish messages, with the flags of mosquitto_pub";

const EXAMPLES: &str = "\
Examples:
  tidegate pub -t sensors/1 -m 21.5                   one message to the broker on this machine
  tidegate pub -h broker.local -t door -m open -q 1 -r   retained, and acknowledged by the broker
  tidegate pub -t door -n -r                          remove the retained message
  tidegate pub -t camera -f picture.jpg               the content of a file
  tail -f app.log | tidegate pub -t log -l            each line as a message
  tidegate pub -t job -m start -D publish message-expiry-interval 60 -D publish user-property by me
  tidegate pub -L mqtt://me:secret@broker.local/door -m open

The flags are as in mosquitto_pub. TLS: --cafile FILE, or mqtts:// with -L.
Exit codes: 0 published, 1 failed, 2 wrong flags; when the broker refuses, its code (1 to 5, or 128 and up).
More: docs/clients.md.";

/// The flags of `tidegate pub`.
#[derive(Clone, Debug, clap::Args)]
#[command(about = ABOUT, disable_help_flag = true, args_override_self = true, after_help = EXAMPLES)]
pub struct Args {
    /// Publish to this topic
    #[arg(short = 't', long, value_name = "TOPIC", allow_hyphen_values = true, help_heading = heading::MESSAGE)]
    topic: Option<String>,

    #[command(flatten)]
    source: MessageSourceFlags,

    /// Publish each line of standard input as a message of its own
    #[arg(short = 'l', long, help_heading = heading::MESSAGE)]
    stdin_line: bool,

    /// The QoS of the message: 0, 1 or 2 [default: 0]
    #[arg(short = 'q', long, value_name = "QOS", value_parser = parse_qos, help_heading = heading::MESSAGE)]
    qos: Option<QoS>,

    /// Have the message retained
    #[arg(short = 'r', long, help_heading = heading::MESSAGE)]
    retain: bool,

    /// Number of times to publish the message; not with -l
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..), help_heading = heading::MESSAGE)]
    repeat: Option<u64>,

    /// Seconds between repetitions, such as 0.5
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = heading::MESSAGE)]
    repeat_delay: Option<Duration>,

    #[command(flatten)]
    in_flight: InFlightFlag,

    #[command(flatten)]
    connection: ConnectionFlags,
}

/// Publishes.
pub fn run(args: Args) -> ExitCode {
    let mut quiet = args.connection.is_quiet();
    let path = args.connection.options_file.clone();
    let result = with_options_file(Tool::Publish, args, path.as_deref()).map_err(CommandError::from).and_then(|args| {
        quiet = args.connection.is_quiet();
        publish(&args)
    });
    finish(Tool::Publish, quiet, result)
}

/// The work, after the flags have been checked.
#[derive(Debug)]
struct Work {
    connection: Plan,
    /// Everything but the payload.
    message: Publish,
    /// `None` for the lines of standard input.
    source: Option<MessageSource>,
    times: u64,
    delay: Duration,
}

impl Args {
    fn read(&self) -> Result<Work, UsageError> {
        let mut connection = self.connection.plan(Tool::Publish, &[])?;
        if let Some(count) = self.in_flight.max_inflight {
            connection.options.max_in_flight = count;
        }
        let topic = self.topic.clone().or_else(|| connection.url_topic.clone());
        let topic = topic.ok_or_else(|| UsageError::new("there is no topic: add -t TOPIC"))?;
        let topic = TopicNameBuf::new(topic.clone())
            .map_err(|error| UsageError::new(format!("the topic {} {error}", Quoted(&topic))))?;
        let source = match (self.source.source()?, self.stdin_line) {
            (Some(_), true) => return Err(several()),
            (None, false) => return Err(none()),
            (source, _) => source,
        };
        if self.stdin_line && (self.repeat.is_some() || self.repeat_delay.is_some()) {
            return Err(UsageError::new("--repeat repeats a single message, so it does not go with -l"));
        }
        let properties = &connection.properties.publish;
        let message = Publish {
            qos: self.qos.unwrap_or_default(),
            retain: self.retain,
            properties: properties.message.clone(),
            topic_alias: properties.topic_alias,
            ..Publish::new(topic, "")
        };
        Ok(Work {
            connection,
            message,
            source,
            times: self.repeat.unwrap_or(1),
            delay: self.repeat_delay.unwrap_or_default(),
        })
    }
}

fn publish(args: &Args) -> Result<Outcome, CommandError> {
    let work = args.read()?;
    let source = match work.source {
        Some(source) => Some(source.read()?),
        None => None,
    };
    let mut publisher = Publisher {
        session: Session::new(work.connection, Persistence::Attempts(ATTEMPTS))?,
        message: work.message,
        waiting: 0,
        refused: None,
    };
    publisher.session.connect()?;
    let result = match source {
        Some(payload) => publisher.repeat(payload, work.times, work.delay),
        None => publisher.lines(),
    };
    let outcome = publisher.session.end(result)?;
    publisher.refused.map_or(Ok(outcome), Err)
}

struct Publisher {
    session: Session,
    message: Publish,
    /// How many messages have been handed to the client and are not settled.
    waiting: usize,
    /// The first refusal of the server. It does not keep the other messages from being published.
    refused: Option<CommandError>,
}

impl Publisher {
    /// Publishes one message several times, each when the one before is settled.
    fn repeat(&mut self, payload: Vec<u8>, times: u64, delay: Duration) -> Result<Outcome, CommandError> {
        self.message.payload = payload;
        let mut left = times;
        // The time of the next repetition; `None` without a connection, and while a repetition is under way.
        let mut due = None;
        let mut connected = false;
        loop {
            match self.session.next(due)? {
                News::Event(Event::Connected(_)) if !connected => {
                    connected = true;
                    due = Some(Instant::now());
                }
                News::Event(event) => {
                    let settled = self.settle(event, Some(&self.message.clone()))?;
                    if settled && left == 0 {
                        return Ok(Outcome::Done);
                    }
                    if settled {
                        due = Some(Instant::now() + delay);
                    }
                }
                News::Deadline => {
                    due = None;
                    left -= 1;
                    self.send(self.message.clone())?;
                }
                News::Woken => {}
                News::Interrupted => return self.interrupted(),
            }
        }
    }

    /// Publishes the lines of standard input.
    fn lines(&mut self) -> Result<Outcome, CommandError> {
        let lines = StdinLines::start(self.session.waker());
        let mut ended = false;
        loop {
            while !ended && self.session.client().has_room() {
                match lines.next()? {
                    Line::Some(payload) => self.send(Publish { payload, ..self.message.clone() })?,
                    Line::NotYet => break,
                    Line::End => ended = true,
                }
            }
            if ended && self.waiting == 0 {
                return Ok(Outcome::Done);
            }
            match self.session.next(None)? {
                News::Event(event) => {
                    self.settle(event, None)?;
                }
                News::Woken | News::Deadline => {}
                News::Interrupted => return self.interrupted(),
            }
        }
    }

    /// A signal has come: unsettled messages stay unsettled.
    fn interrupted(&self) -> Result<Outcome, CommandError> {
        match self.waiting {
            0 => Ok(Outcome::Done),
            waiting => Err(CommandError::Interrupted { waiting }),
        }
    }

    fn send(&mut self, message: Publish) -> Result<(), CommandError> {
        let topic = message.topic.to_string();
        let result = self.session.client().publish(Instant::now(), message);
        result.map_err(|source| CommandError::Publish { topic, source })?;
        self.waiting += 1;
        Ok(())
    }

    /// Notes the outcome of a message; false when the event is about something else, or it is sent again.
    /// `only` is the message when there is only one.
    fn settle(&mut self, event: Event, only: Option<&Publish>) -> Result<bool, CommandError> {
        match event {
            Event::Published(published) => {
                self.waiting = self.waiting.saturating_sub(1);
                self.session.progress();
                self.note_refusal(published);
                Ok(true)
            }
            Event::Undelivered(lost) => {
                self.waiting = self.waiting.saturating_sub(1);
                self.send_again(*lost, only)?;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    fn note_refusal(&mut self, published: Published) {
        if !published.reason_code.is_error() {
            return;
        }
        let text = match published.reason_string {
            Some(reason) => format!("{}: {reason}", published.reason_code),
            None => published.reason_code.to_string(),
        };
        let exit_code = published.reason_code.byte();
        self.refused.get_or_insert(CommandError::PublishRefused { exit_code, text });
    }

    fn send_again(&mut self, lost: Undelivered, only: Option<&Publish>) -> Result<(), CommandError> {
        let topic = self.message.topic.to_string();
        match (lost.cause, lost.publish.or_else(|| only.cloned())) {
            (UndeliveredCause::NotSendable(source), _) => Err(CommandError::Publish { topic, source }),
            // It may have arrived, and must not arrive twice.
            (UndeliveredCause::SessionLost, Some(publish)) if publish.qos == QoS::ExactlyOnce => {
                Err(CommandError::Lost(lost.cause.to_string()))
            }
            (_, Some(publish)) => self.send(publish),
            // Of a message of QoS 0 the client keeps nothing; it may be lost, by its own wish.
            (_, None) => {
                self.session.warn(&format_args!("a message of QoS 0 was lost: {}", lost.cause));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
