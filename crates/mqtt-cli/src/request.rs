//! `tidegate rr`: publishes a request and shows the response.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tidegate_client::{
    Event, Message, Publish, QoS, RequestAnswer, SubscribeRequest, SubscriptionOptions, TopicFilterBuf, TopicNameBuf,
    Version,
};

use crate::flags::connection::{ConnectionFlags, Plan};
use crate::flags::message_source::{MessageSource, MessageSourceFlags, none};
use crate::flags::options_file::with_options_file;
use crate::flags::output::{FORMAT_HELP, OutputFlags};
use crate::flags::{Tool, UsageError, heading, parse_qos};
use crate::outcome::{CommandError, Outcome, finish};
use crate::printer::{PrintError, Printer};
use crate::quoted::Quoted;
use crate::session::{News, Persistence, Session};

const ABOUT: &str = "Publish a request and show the response, with the flags of mosquitto_rr";

const EXAMPLES: &str = "\
Examples:
  tidegate rr -t thermostat/get -e thermostat/answer -m '{}'      ask, and show the answer
  tidegate rr -t adder -e answers/me -m '1 2' -W 5                give up after 5 seconds with exit code 27
  tidegate rr -t adder -e answers/me -m '1 2' -D publish correlation-data 17   the answer that carries 17
  tidegate rr -V 311 -t get -e answer -n                          by agreement on topics alone

In MQTT 5.0 (the default) the request names the response topic, so that a responder need not know it.
The flags are as in mosquitto_rr. TLS: --cafile FILE, or mqtts:// with -L.
Exit codes: 0 answered or interrupted, 1 failed, 2 wrong flags, 27 time is up (-W); when the broker refuses, its code.
More: docs/clients.md.";

/// The flags of `tidegate rr`.
#[derive(Clone, Debug, clap::Args)]
#[command(about = ABOUT, disable_help_flag = true, args_override_self = true, after_help = [FORMAT_HELP, "\n\n", EXAMPLES].concat())]
pub struct Args {
    /// Publish the request to this topic
    #[arg(short = 't', long, value_name = "TOPIC", allow_hyphen_values = true, help_heading = heading::MESSAGE)]
    topic: Option<String>,

    /// Wait for the response on this topic
    #[arg(short = 'e', long, value_name = "TOPIC", allow_hyphen_values = true, help_heading = heading::MESSAGE)]
    response_topic: Option<String>,

    #[command(flatten)]
    source: MessageSourceFlags,

    /// The QoS of request and response: 0, 1 or 2 [default: 0]
    #[arg(short = 'q', long, value_name = "QOS", value_parser = parse_qos, help_heading = heading::MESSAGE)]
    qos: Option<QoS>,

    /// Have the request retained
    #[arg(short = 'r', long, help_heading = heading::MESSAGE)]
    retain: bool,

    /// Seconds after the connection was made until the command ends, with exit code 27
    #[arg(short = 'W', value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..), help_heading = heading::SUBSCRIPTION)]
    timeout: Option<u32>,

    /// Take no retained message for the response
    #[arg(short = 'R', help_heading = heading::SUBSCRIPTION)]
    no_retained: bool,

    #[command(flatten)]
    output: OutputFlags,

    #[command(flatten)]
    connection: ConnectionFlags,
}

/// Asks and waits.
pub fn run(args: Args) -> ExitCode {
    let mut quiet = args.connection.is_quiet();
    let path = args.connection.options_file.clone();
    let result = with_options_file(Tool::Request, args, path.as_deref()).map_err(CommandError::from).and_then(|args| {
        quiet = args.connection.is_quiet();
        request(&args)
    });
    finish(Tool::Request, quiet, result)
}

/// The work, after the flags have been checked.
#[derive(Debug)]
struct Work {
    connection: Plan,
    /// Everything but the payload.
    request: Publish,
    source: MessageSource,
    subscribe: SubscribeRequest,
}

impl Args {
    fn read(&self) -> Result<Work, UsageError> {
        let connection = self.connection.plan(Tool::Request, &[])?;
        let topic = self.topic.clone().or_else(|| connection.url_topic.clone());
        let topic = name("-t", topic)?;
        let response_topic = name("-e", self.response_topic.clone())?;
        let publish = &connection.properties.publish;
        let mut properties = publish.message.clone();
        if connection.options.version == Version::V5 {
            if properties.response_topic.is_some() {
                return Err(UsageError::new("the response topic is set twice: leave the property out, -e sets it"));
            }
            properties.response_topic = Some(response_topic.clone());
        }
        let qos = self.qos.unwrap_or_default();
        let request = Publish {
            qos,
            retain: self.retain,
            properties,
            topic_alias: publish.topic_alias,
            ..Publish::new(topic, "")
        };
        // A topic name is a topic filter, too.
        let filter = TopicFilterBuf::new(response_topic.as_str())
            .map_err(|error| UsageError::new(format!("-e {} {error}", Quoted(response_topic.as_str()))))?;
        let subscribe = SubscribeRequest {
            subscriptions: vec![(filter, SubscriptionOptions::new(qos))],
            subscription_identifier: connection.properties.subscribe.identifier,
            user_properties: connection.properties.subscribe.user_properties.clone(),
        };
        let source = self.source.source()?.ok_or_else(none)?;
        Ok(Work { connection, request, source, subscribe })
    }
}

fn name(flag: &str, topic: Option<String>) -> Result<TopicNameBuf, UsageError> {
    let topic = topic.ok_or_else(|| UsageError::new(format!("there is no topic: add {flag} TOPIC")))?;
    TopicNameBuf::new(topic.clone()).map_err(|error| UsageError::new(format!("{flag} {} {error}", Quoted(&topic))))
}

fn request(args: &Args) -> Result<Outcome, CommandError> {
    let work = args.read()?;
    let mut request = work.request;
    request.payload = work.source.read()?;
    let mut requester = Requester {
        session: Session::new(work.connection, Persistence::Never)?,
        request,
        subscribe: work.subscribe,
        args,
        deadline: None,
        sent: false,
    };
    requester.session.connect()?;
    let result = requester.wait();
    requester.session.end(result)
}

struct Requester<'a> {
    session: Session,
    request: Publish,
    subscribe: SubscribeRequest,
    args: &'a Args,
    /// When the time of `-W` is over; known once there was a connection.
    deadline: Option<Instant>,
    /// Whether the request has been published.
    sent: bool,
}

impl Requester<'_> {
    fn wait(&mut self) -> Result<Outcome, CommandError> {
        loop {
            match self.session.next(self.deadline)? {
                News::Event(Event::Connected(_)) => {
                    let now = Instant::now();
                    let seconds = self.args.timeout;
                    self.deadline = seconds.map(|seconds| now + Duration::from_secs(seconds.into()));
                    self.session.client().subscribe(now, &self.subscribe)?;
                }
                News::Event(Event::Subscribed(answer)) => self.ask(&answer)?,
                News::Event(Event::Message(message)) => {
                    if self.is_response(&message) {
                        return self.show(&message);
                    }
                }
                News::Event(Event::Published(published)) if published.reason_code.is_error() => {
                    let exit_code = published.reason_code.byte();
                    let text = published.reason_code.to_string();
                    return Err(CommandError::PublishRefused { exit_code, text });
                }
                News::Event(_) | News::Woken => {}
                News::Deadline => return Ok(Outcome::TimedOut),
                News::Interrupted => return Ok(Outcome::Done),
            }
        }
    }

    fn ask(&mut self, answer: &RequestAnswer) -> Result<(), CommandError> {
        if let Some(code) = answer.reason_codes.iter().find(|code| code.is_error()) {
            return Err(CommandError::SubscribeRefused { version: self.session.version(), reason: *code });
        }
        let topic = self.request.topic.to_string();
        let asked = self.session.client().publish(Instant::now(), self.request.clone());
        asked.map_err(|source| CommandError::Publish { topic, source })?;
        self.sent = true;
        Ok(())
    }

    /// A response that carries other correlation data answers another request; one that carries none may answer ours.
    fn is_response(&self, message: &Message) -> bool {
        let asked = &self.request.properties.correlation_data;
        let other = match (asked, &message.properties.correlation_data) {
            (Some(asked), Some(found)) => asked != found,
            _ => false,
        };
        let stale = self.args.no_retained && message.retain;
        self.sent && !other && !stale
    }

    fn show(&mut self, message: &Message) -> Result<Outcome, CommandError> {
        let mut printer = Printer::new(&self.args.output, false);
        match printer.print(message, &mut io::stdout().lock()) {
            Ok(()) => Ok(Outcome::Done),
            Err(PrintError::Render(error)) => {
                self.session.warn(&error);
                Ok(Outcome::Done)
            }
            Err(PrintError::Output(error)) => Err(CommandError::Output(error)),
        }
    }
}

#[cfg(test)]
mod tests;
