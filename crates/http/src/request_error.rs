//! Faults of a request: of its query, its headers and the fields of its messages.

use tidegate_client::TopicError;

/// Why a request is refused with 400. The client gets the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    /// A parameter or header of a message that does not exist.
    #[error("`{0}` is not known")]
    UnknownField(String),
    /// A parameter of a query that does not exist.
    #[error("`{name}` is not known; there are {known}")]
    UnknownParameter {
        /// The parameter.
        name: String,
        /// The parameters of the request.
        known: String,
    },
    /// A parameter or field whose value has another form.
    #[error("`{name}` is {form}, not {value:?}")]
    Value {
        /// The parameter or field.
        name: &'static str,
        /// The form that is accepted.
        form: &'static str,
        /// The given value.
        value: String,
    },
    /// A number out of range.
    #[error("`{name}` is 1 to {most}, not {value:?}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// The largest number.
        most: usize,
        /// The given value.
        value: String,
    },
    /// The QoS.
    #[error("the QoS is 0, 1 or 2, not {0:?}")]
    Qos(String),
    /// Data that must be base64.
    #[error("`{0}` is not base64")]
    Base64(&'static str),
    /// A header that is no UTF-8.
    #[error("header {0} is no UTF-8")]
    Header(String),
    /// A topic name.
    #[error("the topic {0}")]
    Topic(TopicError),
    /// A topic filter.
    #[error("the filter {0}")]
    Filter(TopicError),
    /// More topic filters than this limit.
    #[error("a request has {0} filters at most")]
    Filters(usize),
    /// More user properties than this limit.
    #[error("a message may have {0} user properties")]
    UserProperties(usize),
    /// The name of a queue.
    #[error("the name of a queue has 1 to 64 letters, digits, `-`, `_` and `.`")]
    QueueName,
    /// A position in a queue.
    #[error("{0:?} is no cursor")]
    Cursor(String),
}
