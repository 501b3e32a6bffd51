//! Sources: where messages come from. Each is one file with its settings and one [`Source`].

mod http;
mod inbox;
mod kafka;
mod log;
mod nats;
mod progress;
mod replayed;
mod session_filters;
mod topics;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

pub(crate) use self::http::Http;
pub use self::http::HttpSourceSettings;
pub(crate) use self::kafka::Kafka;
pub use self::kafka::KafkaSourceSettings;
pub(crate) use self::log::LogSource;
pub(crate) use self::nats::Nats;
pub use self::nats::NatsSourceSettings;
pub(crate) use self::replayed::Replayed;
pub use self::session_filters::SessionFilters;
pub(crate) use self::topics::Topics;
pub use self::topics::TopicsSettings;
use crate::core::Ending;
use crate::log::LogSettings;
use crate::message::Message;

/// Ends the wait of a source. It may be called from any thread, and it does not block.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The next event of a source.
pub enum SourceStep<T> {
    /// A message, and how to acknowledge it; without a token its sender keeps no copy.
    Message(Arc<Message>, Option<T>),
    /// The deadline has come, or the source was woken.
    Idle,
    /// The source takes all its messages from now on.
    Ready,
    /// The source takes only a part of its messages, and tries again.
    Partly(String),
    /// The source takes no messages, and tries again. The tokens before this step are of no use any more: the
    /// messages come again.
    Away(String),
    /// The source cannot do something at the moment. Its tokens stay of use.
    Trouble(String),
    /// Another process takes these messages over. Their tokens are of no use any more, and they do not come again.
    Gone(Box<dyn Fn(&T) -> bool + Send>),
    /// An operator has paused or resumed the pipeline, perhaps at another process.
    Paused(bool),
}

/// Why messages do not come again.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The source forgets a message when it is delivered.
    #[error(
        "it keeps no delivered messages: a pipeline of topics does with keep = \"24h\", in a cluster with hub.bus, too"
    )]
    NothingKept,
    /// It would bring no message.
    #[error("the time lies in the future: no message came then")]
    Future,
    /// The archive cannot be read, or the order cannot be kept there.
    #[error("the archive {}: {error}", folder.display())]
    Archive {
        /// Its folder.
        folder: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The source has not answered in time.
    #[error("the replay has not begun yet: it begins when the source answers")]
    Late,
}

/// The answer to an operator who asks for messages again.
pub(crate) type ReplayAnswer = Sender<Result<(), ReplayError>>;

/// Where messages come from. It lives on the thread of its pipeline.
pub trait Source: Send {
    /// How a message is acknowledged.
    type Token: Send;

    /// Ends a wait in [`Source::next`].
    fn wake(&self) -> Wake;

    /// Waits for the next step, until `deadline` at most. A source connects without being asked, and again whenever it has to.
    fn next(&mut self, deadline: Option<Instant>) -> SourceStep<Self::Token>;

    /// The next step that is there already, without a wait.
    fn ready(&mut self) -> Option<SourceStep<Self::Token>> {
        None
    }

    /// Lets messages gather until `until` at most, or until the source is woken, so that one wake-up takes many of them.
    fn rest(&mut self, _until: Instant) {}

    /// A message has ended: the sender may forget it. The source must keep this even if it is killed now, or have the
    /// message come again. A sender that waits for an answer receives the ending.
    fn acknowledge(&mut self, token: Self::Token, ending: Ending);

    /// Many messages have ended, in this order.
    fn acknowledge_all(&mut self, ended: Vec<(Self::Token, Ending)>) {
        for (token, ending) in ended {
            self.acknowledge(token, ending);
        }
    }

    /// Takes back a message that has ended: the next ones may use its memory.
    fn reuse(&mut self, _message: Arc<Message>) {}

    /// Whether acknowledgements reach the sender.
    fn is_connected(&self) -> bool;

    /// Messages that wait at the sender and were not taken, where the source knows that.
    fn waiting(&self) -> u64 {
        0
    }

    /// Messages that were removed before the pipeline took them, as far as the source knows: at the sender by their age, or
    /// because the pipeline does not take their topics any more.
    fn removed(&self) -> u64 {
        0
    }

    /// Where it is, for the log.
    fn place(&self) -> String;

    /// An operator pauses or resumes the pipeline here. A source that several processes share tells the others.
    fn pause(&mut self, _paused: bool) {}

    /// Has messages come again that the broker took at `from` (Unix milliseconds) or later. The operator gets the answer
    /// when that outlasts a crash, or an error when the source keeps no messages.
    fn replay(&mut self, _from: u64, answer: ReplayAnswer) {
        // An operator that has gone needs no answer.
        let _ = answer.send(Err(ReplayError::NothingKept));
    }

    /// Leaves the sender, which keeps unacknowledged messages.
    fn leave(&mut self);
}

/// The source of a pipeline, with its settings.
#[derive(Clone, Debug)]
pub enum SourceSettings {
    /// The topics of a broker.
    Topics(TopicsSettings),
    /// The log of the pipeline on the bus, which a broker writes.
    Log(LogSettings),
    /// Subjects of NATS, or a stream of `JetStream`.
    Nats(NatsSourceSettings),
    /// A topic of Kafka.
    Kafka(KafkaSourceSettings),
    /// Requests of others.
    Http(HttpSourceSettings),
}

impl SourceSettings {
    /// Messages above QoS 0 that it hands out until one is acknowledged.
    pub(crate) fn window(&self) -> usize {
        usize::from(match self {
            Self::Topics(settings) => settings.window,
            Self::Log(settings) => settings.window,
            Self::Nats(settings) => settings.window,
            Self::Kafka(settings) => settings.window,
            Self::Http(settings) => settings.window,
        })
    }
}
