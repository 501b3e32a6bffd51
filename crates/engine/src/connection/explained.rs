//! Why payloads were refused, until the acknowledgements that say so leave.

use tidegate_mqtt::PacketId;

/// Explanations that a connection holds while earlier acknowledgements wait; further refusals are sent with the text of
/// their reason alone.
const MAX_EXPLAINED: usize = 16;

/// Explanations of refusals by packet identifier.
#[derive(Debug, Default)]
pub(crate) struct Explained(Vec<(PacketId, String)>);

impl Explained {
    /// Keeps the explanation of a refusal, unless there are [`MAX_EXPLAINED`].
    pub(crate) fn keep(&mut self, id: PacketId, text: String) {
        if self.0.len() < MAX_EXPLAINED {
            self.0.push((id, text));
        }
    }

    /// The explanation for the acknowledgement of a packet.
    pub(crate) fn take(&mut self, id: PacketId) -> Option<String> {
        let at = self.0.iter().position(|(other, _)| *other == id)?;
        Some(self.0.remove(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_are_bounded_and_taken_once() {
        let mut explained = Explained::default();
        let id = |number: usize| PacketId::new(u16::try_from(number).unwrap()).unwrap();
        for number in 1..=MAX_EXPLAINED + 1 {
            explained.keep(id(number), number.to_string());
        }
        assert_eq!(explained.take(id(MAX_EXPLAINED)), Some(MAX_EXPLAINED.to_string()));
        assert_eq!((explained.take(id(MAX_EXPLAINED)), explained.take(id(MAX_EXPLAINED + 1))), (None, None));
        explained.keep(id(1_000), "again".to_owned());
        assert_eq!(explained.take(id(1_000)).as_deref(), Some("again"));
    }
}
