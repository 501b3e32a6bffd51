//! Messages that a format cannot show.

use crate::quoted::Quoted;

/// Why a message cannot be shown by a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RenderError {
    /// `%J` asks for JSON.
    #[error("the payload on topic {} is not valid JSON", Quoted(.topic))]
    NotJson {
        /// The topic of the message.
        topic: String,
    },
    /// `%f` asks for 4 bytes, `%d` for 8.
    #[error("the payload on topic {} has {found} bytes, a floating-point number has {expected}", Quoted(.topic))]
    NotFloat {
        /// The topic of the message.
        topic: String,
        /// How many bytes it has.
        found: usize,
        /// How many bytes it should have.
        expected: usize,
    },
}
