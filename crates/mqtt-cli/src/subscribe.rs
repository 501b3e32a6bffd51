//! `tidegate sub`: subscribes and shows what arrives.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tidegate_client::{
    Acknowledgement, Event, Message, Publish, QoS, ReasonCode, RequestAnswer, RetainHandling, SubscribeRequest,
    SubscriptionOptions, TopicFilterBuf, TopicNameBuf, UnsubscribeRequest,
};
use tidegate_random::SplitMix64;

use crate::flags::connection::{ConnectionFlags, Plan, random};
use crate::flags::options_file::with_options_file;
use crate::flags::output::{FORMAT_HELP, OutputFlags};
use crate::flags::{Tool, UsageError, heading, parse_percentage, parse_qos, parse_retain_handling};
use crate::outcome::{CommandError, Outcome, finish, subscription_refusal};
use crate::printer::{PrintError, Printer};
use crate::quoted::Quoted;
use crate::session::{News, Persistence, Session};

/// How many removals of retained messages may wait to be sent.
const MAX_QUEUED_REMOVALS: usize = 1_000_000;

const ABOUT: &str = "Subscribe and show messages, with the flags of mosquitto_sub";

const EXAMPLES: &str = "\
Examples:
  tidegate sub -t 'sensors/#' -v                  topic and payload of everything below sensors
  tidegate sub -t door -C 1                       one message, then end
  tidegate sub -t door -C 1 -W 5                  give up after 5 seconds with exit code 27
  tidegate sub -t '#' -F '@H:@M:@S %t %p'         with the time, by a format
  tidegate sub -t '#' -F %j                       each message as a JSON object
  tidegate sub -t jobs -q 1 -c -i worker          a session that collects messages while its client is away
  tidegate sub -t '#' --retained-only --remove-retained -v   show and remove all retained messages
  tidegate sub -t '$share/workers/jobs' -q 1 -V 5 share the messages with others

The flags are as in mosquitto_sub. TLS: --cafile FILE, or mqtts:// with -L.
Exit codes: 0 done or interrupted, 1 failed, 2 wrong flags, 27 time is up (-W); when the broker refuses, its code.
A lost connection is made again. More: docs/clients.md.";

/// The flags of `tidegate sub`.
#[derive(Clone, Debug, clap::Args)]
#[command(about = ABOUT, disable_help_flag = true, args_override_self = true, after_help = [FORMAT_HELP, "\n\n", EXAMPLES].concat())]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Args {
    /// Subscribe to this topic filter; repeatable
    #[arg(short = 't', long, value_name = "FILTER", allow_hyphen_values = true, help_heading = heading::SUBSCRIPTION)]
    topic: Vec<String>,

    /// The greatest QoS of messages: 0, 1 or 2 [default: 0]
    #[arg(short = 'q', long, value_name = "QOS", value_parser = parse_qos, help_heading = heading::SUBSCRIPTION)]
    qos: Option<QoS>,

    /// Unsubscribe from this topic filter; repeatable
    #[arg(short = 'U', long, value_name = "FILTER", allow_hyphen_values = true, help_heading = heading::SUBSCRIPTION)]
    unsubscribe: Vec<String>,

    /// Keep the retain flag that messages were published with (MQTT 5.0)
    #[arg(long, help_heading = heading::SUBSCRIPTION)]
    retain_as_published: bool,

    /// When retained messages are sent: always, new (subscriptions only) or never (MQTT 5.0)
    #[arg(long, value_name = "WHEN", value_parser = parse_retain_handling, help_heading = heading::SUBSCRIPTION)]
    retain_handling: Option<RetainHandling>,

    /// End as soon as the subscriptions are acknowledged
    #[arg(short = 'E', help_heading = heading::SUBSCRIPTION)]
    exit_after_subscribing: bool,

    /// Number of messages after which the command ends
    #[arg(short = 'C', value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..), help_heading = heading::SUBSCRIPTION)]
    count: Option<u64>,

    /// Seconds after the connection was made until the command ends, with exit code 27
    #[arg(short = 'W', value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..), help_heading = heading::SUBSCRIPTION)]
    timeout: Option<u32>,

    /// Leave out messages with a topic that matches this filter; repeatable
    #[arg(short = 'T', long, value_name = "FILTER", allow_hyphen_values = true, help_heading = heading::SUBSCRIPTION)]
    filter_out: Vec<String>,

    /// Leave out retained messages
    #[arg(short = 'R', help_heading = heading::SUBSCRIPTION)]
    no_retained: bool,

    /// Show retained messages only, and end at the first other one
    #[arg(long, conflicts_with = "no_retained", help_heading = heading::SUBSCRIPTION)]
    retained_only: bool,

    /// Remove the retained messages that arrive from the broker, except topics of -T
    #[arg(long, help_heading = heading::SUBSCRIPTION)]
    remove_retained: bool,

    /// Show this percentage of the messages, by chance
    #[arg(long, value_name = "PERCENT", value_parser = parse_percentage, help_heading = heading::SUBSCRIPTION)]
    random_filter: Option<f64>,

    #[command(flatten)]
    output: OutputFlags,

    /// Give each topic a line of the screen, and show its last message there
    #[arg(short = 'w', long, help_heading = heading::OUTPUT)]
    watch: bool,

    /// Show how many messages arrive in each second instead of the messages
    #[arg(long, conflicts_with_all = ["format", "verbose", "watch", "pretty"], help_heading = heading::OUTPUT)]
    message_rate: bool,

    #[command(flatten)]
    connection: ConnectionFlags,
}

/// Subscribes.
pub fn run(args: Args) -> ExitCode {
    let mut quiet = args.connection.is_quiet();
    let path = args.connection.options_file.clone();
    let result =
        with_options_file(Tool::Subscribe, args, path.as_deref()).map_err(CommandError::from).and_then(|args| {
            quiet = args.connection.is_quiet();
            subscribe(&args)
        });
    finish(Tool::Subscribe, quiet, result)
}

/// The work, after the flags have been checked.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) connection: Plan,
    subscribe: SubscribeRequest,
    unsubscribe: UnsubscribeRequest,
    filter_out: Vec<TopicFilterBuf>,
}

impl Work {
    /// The filters of the subscriptions.
    #[cfg(test)]
    pub(crate) fn topics(&self) -> Vec<&str> {
        self.subscribe.subscriptions.iter().map(|(filter, _)| filter.as_str()).collect()
    }
}

impl Args {
    pub(crate) fn read(&self) -> Result<Work, UsageError> {
        let needs_v5 = [
            ("--retain-as-published", self.retain_as_published),
            ("--retain-handling", self.retain_handling.is_some()),
        ];
        let mut connection = self.connection.plan(Tool::Subscribe, &needs_v5)?;
        // A message counts as taken once it is on standard output, so that `-C 1` takes one message of a session.
        connection.options.acknowledgement = Acknowledgement::Manual;
        if self.remove_retained {
            // Retained messages arrive faster than their removals are acknowledged.
            connection.options.max_queued_messages = MAX_QUEUED_REMOVALS;
        }
        let topics = connection.url_topic.iter().chain(&self.topic).cloned();
        let topics = filters(topics)?;
        let unsubscribe = filters(self.unsubscribe.iter().cloned())?;
        if topics.is_empty() && unsubscribe.is_empty() {
            return Err(UsageError::new("there is no topic to subscribe to: add -t FILTER"));
        }
        let options = SubscriptionOptions {
            qos: self.qos.unwrap_or_default(),
            no_local: false,
            retain_as_published: self.retain_as_published,
            retain_handling: self.retain_handling.unwrap_or_default(),
        };
        let properties = &connection.properties;
        Ok(Work {
            subscribe: SubscribeRequest {
                subscriptions: topics.into_iter().map(|filter| (filter, options)).collect(),
                subscription_identifier: properties.subscribe.identifier,
                user_properties: properties.subscribe.user_properties.clone(),
            },
            unsubscribe: UnsubscribeRequest { filters: unsubscribe, user_properties: properties.unsubscribe.clone() },
            filter_out: filters(self.filter_out.iter().cloned())?,
            connection,
        })
    }
}

fn filters(texts: impl Iterator<Item = String>) -> Result<Vec<TopicFilterBuf>, UsageError> {
    let filter = |text: String| {
        let wrong = |error| UsageError::new(format!("the topic filter {} {error}", Quoted(&text)));
        TopicFilterBuf::new(text.clone()).map_err(wrong)
    };
    texts.map(filter).collect()
}

fn subscribe(args: &Args) -> Result<Outcome, CommandError> {
    let work = args.read()?;
    let mut subscriber = Subscriber {
        session: Session::new(work.connection, Persistence::Always)?,
        subscribe: work.subscribe,
        unsubscribe: work.unsubscribe,
        filter_out: work.filter_out,
        args,
        printer: Printer::new(&args.output, args.watch),
        chance: Chance::new(args.random_filter),
        counted: 0,
        removals: 0,
        removed: BTreeSet::new(),
        ending: false,
        deadline: None,
        rate: args.message_rate.then_some(Rate { count: 0, due: None }),
    };
    subscriber.session.connect()?;
    let result = subscriber.listen();
    subscriber.session.end(result)
}

struct Subscriber<'a> {
    session: Session,
    subscribe: SubscribeRequest,
    unsubscribe: UnsubscribeRequest,
    filter_out: Vec<TopicFilterBuf>,
    args: &'a Args,
    printer: Printer,
    chance: Chance,
    /// How many messages count for `-C`.
    counted: u64,
    /// How many removals of retained messages the server has not acknowledged.
    removals: usize,
    /// Topics whose removal will return, since it is a message, too.
    removed: BTreeSet<TopicNameBuf>,
    /// All messages have been shown; only removals are awaited.
    ending: bool,
    /// When the time of `-W` is over; known once there was a connection.
    deadline: Option<Instant>,
    rate: Option<Rate>,
}

/// The counter of `--message-rate`.
struct Rate {
    count: u64,
    /// When it is shown next; known once there was a connection.
    due: Option<Instant>,
}

impl Subscriber<'_> {
    fn listen(&mut self) -> Result<Outcome, CommandError> {
        while !(self.ending && self.removals == 0) {
            let rate_due = self.rate.as_ref().and_then(|rate| rate.due);
            let until = self.deadline.into_iter().chain(rate_due).min();
            match self.session.next(until)? {
                News::Event(event) => self.handle(event)?,
                News::Deadline if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    return Ok(Outcome::TimedOut);
                }
                News::Deadline => self.show_rate()?,
                News::Woken => {}
                News::Interrupted => break,
            }
        }
        Ok(Outcome::Done)
    }

    fn handle(&mut self, event: Event) -> Result<(), CommandError> {
        match event {
            Event::Connected(_) => self.connected(),
            Event::Subscribed(answer) => self.subscribed(&answer),
            Event::Unsubscribed(_) => {
                self.ending |= self.subscribe.subscriptions.is_empty() && self.args.exit_after_subscribing;
                Ok(())
            }
            Event::Message(message) => self.message(&message),
            Event::Published(_) | Event::Undelivered(_) => {
                self.removals = self.removals.saturating_sub(1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn connected(&mut self) -> Result<(), CommandError> {
        let now = Instant::now();
        let timeout = self.args.timeout.map(|seconds| now + Duration::from_secs(seconds.into()));
        self.deadline = self.deadline.or(timeout);
        if let Some(rate) = &mut self.rate {
            rate.due.get_or_insert(now + Duration::from_secs(1));
        }
        if !self.subscribe.subscriptions.is_empty() {
            self.session.client().subscribe(now, &self.subscribe)?;
        }
        if !self.unsubscribe.filters.is_empty() {
            self.session.client().unsubscribe(now, &self.unsubscribe)?;
        }
        Ok(())
    }

    fn subscribed(&mut self, answer: &RequestAnswer) -> Result<(), CommandError> {
        let refused = |code: &ReasonCode| code.is_error();
        if let Some(code) = answer.reason_codes.first()
            && answer.reason_codes.iter().all(refused)
        {
            return Err(CommandError::SubscribeRefused { version: self.session.version(), reason: *code });
        }
        for ((filter, _), code) in self.subscribe.subscriptions.iter().zip(&answer.reason_codes) {
            if code.is_error() {
                let (filter, why) = (Quoted(filter.as_str()), subscription_refusal(self.session.version(), *code));
                self.session.warn(&format_args!("the server refused the subscription to {filter}: {why}"));
            }
        }
        self.ending |= self.args.exit_after_subscribing;
        Ok(())
    }

    fn message(&mut self, message: &Message) -> Result<(), CommandError> {
        if self.ending {
            // It is not acknowledged, so a session delivers it the next time.
            return Ok(());
        }
        if !message.retain && message.payload.is_empty() && self.removed.remove(&message.topic) {
            self.ending |= self.args.retained_only && self.removed.is_empty();
            self.acknowledge(message);
            return Ok(());
        }
        if self.args.retained_only && !message.retain {
            self.ending = true;
            return Ok(());
        }
        if !self.filter_out.iter().any(|filter| filter.matches(&message.topic)) {
            self.remove_retained(message)?;
            if !(self.args.no_retained && message.retain) && self.chance.draw() {
                self.show(message)?;
            }
        }
        self.acknowledge(message);
        Ok(())
    }

    fn acknowledge(&mut self, message: &Message) {
        if let Some(delivery) = message.delivery {
            self.session.client().acknowledge(Instant::now(), delivery);
        }
    }

    fn show(&mut self, message: &Message) -> Result<(), CommandError> {
        if let Some(rate) = &mut self.rate {
            rate.count += 1;
        } else {
            match self.printer.print(message, &mut io::stdout().lock()) {
                Ok(()) => {}
                Err(PrintError::Render(error)) => self.session.warn(&error),
                Err(PrintError::Output(error)) => return Err(CommandError::Output(error)),
            }
        }
        self.counted += 1;
        self.ending |= self.args.count == Some(self.counted);
        Ok(())
    }

    fn remove_retained(&mut self, message: &Message) -> Result<(), CommandError> {
        if !self.args.remove_retained || !message.retain || message.payload.is_empty() {
            return Ok(());
        }
        let removal = Publish::new(message.topic.clone(), "").with_qos(QoS::AtLeastOnce).with_retain(true);
        let removed = self.session.client().publish(Instant::now(), removal);
        removed.map_err(|source| CommandError::Publish { topic: message.topic.to_string(), source })?;
        self.removals += 1;
        if self.removed.len() < MAX_QUEUED_REMOVALS {
            self.removed.insert(message.topic.clone());
        }
        Ok(())
    }

    fn show_rate(&mut self) -> Result<(), CommandError> {
        let Some(rate) = &mut self.rate else {
            return Ok(());
        };
        let count = std::mem::take(&mut rate.count);
        rate.due = rate.due.map(|due| due + Duration::from_secs(1));
        let mut out = io::stdout().lock();
        writeln!(out, "{count}").and_then(|()| out.flush()).map_err(CommandError::Output)
    }
}

/// Lets a share of the messages through.
struct Chance {
    /// Out of 2^32.
    share: u64,
    series: SplitMix64,
}

impl Chance {
    fn new(percentage: Option<f64>) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 2^32 fits")]
        let share = (percentage.unwrap_or(100.0) / 100.0 * 4_294_967_296.0) as u64;
        Self { share, series: SplitMix64::new(random()) }
    }

    fn draw(&mut self) -> bool {
        self.series.number() >> 32 < self.share
    }
}

#[cfg(test)]
mod tests;
