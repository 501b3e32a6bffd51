//! Why settings of the hub cannot be made.

use std::io;

use tidegate_bus::AddressError;
use tidegate_hub::net::TlsFileError;
use tidegate_mqtt::TopicError;

use crate::orchestrator::BrokerAddressError;

/// Why the settings of a pipeline or a sink cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// An address of a broker is wrong.
    #[error(transparent)]
    Address(#[from] BrokerAddressError),
    /// TLS to a broker cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] TlsFileError),
    /// A pipeline names a sink that the configuration does not have.
    #[error("there is no sink `{0}`")]
    NoSink(String),
    /// A topic filter is wrong.
    #[error(transparent)]
    Filter(#[from] TopicError),
    /// A sink cannot be used.
    #[error("sink `{name}`: {source}")]
    Sink {
        /// The sink.
        name: String,
        /// The cause.
        source: Box<PipelineError>,
    },
    /// A header has no value.
    #[error("a header is `NAME: VALUE`")]
    Header,
    /// A file that has to be text is not.
    #[error("{0} is no text")]
    NoText(String),
    /// A file of a secret cannot be read.
    #[error("cannot read the secret in {path}: {source}")]
    Secret {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// A file of a secret has none.
    #[error("cannot read the secret in {0}: its first line is empty")]
    EmptySecret(String),
    /// The address of the bus is wrong.
    #[error("the bus of the hub: {0}")]
    BusAddress(AddressError),
    /// The bus is within one process.
    #[error("the bus of the hub is within one process: name nats://HOST:PORT or kafka://HOST:PORT")]
    BusNotShared,
    /// Several processes would share the transactions of a sink.
    #[error(
        "sink `{0}` has `exactly_once`, and several processes may run its pipeline here: run the pipeline in the broker, \
         without hub.bus"
    )]
    TransactionsShared(String),
    /// A pipeline publishes to a broker, and none is named.
    #[error("pipeline `{pipeline}` publishes to {place}: name the broker with --broker mqtt://HOST:PORT")]
    NoBroker {
        /// The pipeline.
        pipeline: String,
        /// The sink, or the topic of its dead letters.
        place: String,
    },
    /// A pipeline names a source that the configuration does not have.
    #[error("there is no source `{0}`")]
    NoSource(String),
    /// A source cannot be used.
    #[error("source `{name}`: {source}")]
    Source {
        /// The source.
        name: String,
        /// The cause.
        source: Box<PipelineError>,
    },
    /// The address of a web hook cannot be used.
    #[error("`{listen}`: {source}")]
    Listen {
        /// The address.
        listen: String,
        /// The cause.
        source: io::Error,
    },
    /// The address of a web hook has no host.
    #[error("`{0}` is no address")]
    NoAddress(String),
    /// A sink of kind `topic` has no settings before its broker is known.
    #[error("its broker is not known here")]
    UnknownBroker,
    /// A sink has no settings of its kind.
    #[error("it has no kind")]
    NoKind,
    /// A pipeline beside a broker cannot refuse messages.
    #[error(
        "pipeline `{0}` has `on_invalid = \"refuse\"`, and beside a broker no message is refused: run it in the broker, or \
         set \"fail\" or \"drop\""
    )]
    RefusesNowhere(String),
    /// Neither a bus nor a broker is named.
    #[error(
        "name the source of messages: --bus nats://HOST:PORT, if the broker has hub.bus, or --broker mqtt://HOST:PORT"
    )]
    NoOrigin,
}
