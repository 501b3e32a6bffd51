//! Messages between mobile nodes and applications as records on the bus: keys, headers and envelopes (`CTX-10`,
//! `CTX-62`). `docs/applications.md` describes them for authors of applications.

mod envelope;
mod headers;
mod incoming;
mod outgoing;

pub use envelope::Envelope;
pub use incoming::{Delivery, Rejected, read_record};
pub use outgoing::{NodeMessage, write_record};

/// How the value of a record holds a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// The payload as it is; all else is in headers.
    #[default]
    Plain,
    /// An envelope as a JSON object.
    Json,
    /// An envelope as a map of `MessagePack`.
    MessagePack,
}

impl Packing {
    /// Its name in the header `envelope`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Json => "json",
            Self::MessagePack => "msgpack",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Plain, Self::Json, Self::MessagePack].into_iter().find(|packing| packing.name() == name)
    }
}

/// The properties of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// MIME type or the like.
    pub content_type: Option<String>,
    /// Whether the payload is UTF-8 text, as its sender says.
    pub is_text: bool,
    /// Where an answer, or a receipt, is to go.
    pub response_topic: Option<String>,
    /// Identifies the request that an answer is for.
    pub correlation_data: Option<Vec<u8>>,
    /// Pairs of the sender's own, in order.
    pub user_properties: Vec<(String, String)>,
}

#[cfg(test)]
mod tests;
