//! The header in front of the bytes of a client that this node carries.

use crate::proxy_protocol::{HEADER_MAX, Progress, parse};

/// How much of the header for the home has come from the node of the client.
#[derive(Debug)]
pub(crate) enum Introduction {
    /// These bytes of it.
    Partial(Vec<u8>),
    /// All of it: packets follow.
    Complete,
}

impl Introduction {
    /// Whether packets follow.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }

    /// Takes the next bytes; returns those behind the header. `None` if there is no header, or if it asks the home to carry
    /// the client further: one node carries a client, so that no sequence of headers makes a circle of connections.
    pub(crate) fn pass<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let Self::Partial(header) = self else { return Some(bytes) };
        let before = header.len();
        let taken = bytes.len().min(HEADER_MAX.saturating_sub(before));
        header.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        match parse(header) {
            Ok(Progress::Partial) if header.len() < HEADER_MAX => Some(&[]),
            Ok(Progress::Complete(whole)) if whole.fields.carry_to.is_none() => {
                *self = Self::Complete;
                bytes.get(whole.length.saturating_sub(before)..)
            }
            Ok(_) | Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy_protocol::{HeaderFields, write_v2};

    #[test]
    fn packets_follow_the_header_wherever_it_is_cut() {
        let header = write_v2(None, HeaderFields { continues: true, ..HeaderFields::default() });
        let bytes = [&header[..], b"packets"].concat();
        for cut in 0..bytes.len() {
            let mut introduction = Introduction::Partial(Vec::new());
            let first = introduction.pass(&bytes[..cut]).unwrap();
            assert_eq!(introduction.is_complete(), cut >= header.len(), "{cut}");
            let second = introduction.pass(&bytes[cut..]).unwrap();
            assert_eq!([first, second].concat(), b"packets", "{cut}");
        }
    }

    #[test]
    fn a_carried_client_is_not_carried_further() {
        let home = Some("192.0.2.9:7001".parse().unwrap());
        let further = write_v2(None, HeaderFields { carry_to: home, ..HeaderFields::default() });
        for bytes in [&further[..], b"\x10\x0f\0\x04MQTT\x04\x02\0\0\0\x03abc"] {
            assert_eq!(Introduction::Partial(Vec::new()).pass(bytes), None);
        }
    }
}
