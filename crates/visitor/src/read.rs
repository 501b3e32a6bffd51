//! Results of reading a retained message.

/// The place of a retained message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// This node has the topic. `None` without a message.
    Here(Option<T>),
    /// Another node of the cluster has the topic: it has to be asked.
    Elsewhere,
}

/// Why a client does not get a retained message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The rules deny it.
    #[error("not authorized")]
    NotAuthorized,
    /// The text is no topic name.
    #[error("topic name invalid")]
    InvalidTopic,
    /// The topic moves between nodes.
    #[error("the topic moves to another node: ask again")]
    Moving,
    /// The named node has the topic, and does not answer this one.
    #[error("node {0} has the retained message of this topic, and does not answer this node")]
    Silent(String),
    /// The named node has the message, which is too long for the link between the nodes.
    #[error("node {0} has the retained message of this topic, which is too long for the link to it: ask that node")]
    TooLong(String),
    /// Too many questions to other nodes are under way.
    #[error("too many reads wait for other nodes: ask again")]
    Busy,
    /// Another node of the cluster has the session of the client.
    #[error("another node has the session of this client: connect again")]
    SessionElsewhere,
    /// The broker does not answer.
    #[error("the broker does not answer")]
    Unavailable,
}
